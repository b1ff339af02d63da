"""Devices in the ring: K and V stay in pools, queries visit them, (O, LSE) come back."""

from typing import Any

import pytest
import torch

pytest.importorskip("nearkv.core", exc_type=ImportError)
from bench.ranks.world import World
from nearkv.core import AttendMode, Device, Dtype, Pool
from nearkv.far import FarAttention
from nearkv.parallel import Links, Scores, Shard, Sharding, TokenRing
from nearkv.parallel.device_shard import DeviceShard
from tests.parallel.jobs import Case, attend_in_one_place, random_tokens, sharding_of

DEVICES = ["cpu:?memory=16MiB", "model:?memory=16MiB"]
# A device sums in fp32; a token too many or too few moves O further.
EXACT = 1e-4


def attend(links: Links, case: Case, devices: list[str]) -> dict[str, Any]:
    """Ranks with a device's URI keep K and V there, the others in tensors."""
    query, key, value = random_tokens(case)
    ring = TokenRing(links)
    uri = devices[links.rank]
    kept: Any = None
    if uri:
        shape = {"layers": 2, "kv_heads": case.kv_heads, "head_dim": case.head_dim}
        pool = Pool.create(Device(uri), value_dim=case.value_dim, dtype=Dtype.BF16, **shape)
        for sequence in range(case.batch):
            pool.create_sequence(sequence)
        kept = DeviceShard(pool, range(case.batch), 1, links.size, links.rank)
    error = first = 0
    for count in (case.tokens, case.later, *[1] * case.decoded):
        end = first + count
        kind = case.sharding if count > 1 else "one"
        tokens = sharding_of(kind, count, links.size, first)
        rows = [tokens.take(links.rank, part[:, :, first:end], 2, first) for part in (key, value)]
        part = ring.place(*rows, tokens)
        if kept is None:
            kept = part
        else:
            kept.append(part)
        mine = tokens.take(links.rank, query[:, :, first:end].float(), 2, first)
        output = ring.attend(mine, kept, tokens, case.scores)
        whole = query[:, :, first:end], key[:, :, :end], value[:, :, :end]
        wanted = attend_in_one_place(*whole, first, case.scores)
        wanted = tokens.take(links.rank, wanted, 2, first)
        if wanted.numel():
            error = max(error, float((output - wanted).abs().max()))
        first = end
    return {"error": error, "pages": pool.usage().pages if uri else 0}


@pytest.mark.parametrize("uri", DEVICES)
@pytest.mark.parametrize("sharding", ["contiguous", "zigzag", "uneven", "one"])
def test_a_ring_of_tensors_and_devices(world: World, uri: str, sharding: str) -> None:
    case = Case(sharding=sharding, tokens=330, later=90, decoded=2, heads=4, dtype=torch.bfloat16)
    answers = world.run(attend, case, ["", "", "", uri])
    assert max(answer["error"] for answer in answers) < EXACT
    assert answers[3]["pages"] > 0


@pytest.mark.parametrize("scores", [Scores(scale=0.3, window=50), Scores(scale=0.3, soft_cap=2.0)])
def test_what_a_query_sees_of_a_device(world: World, scores: Scores) -> None:
    for sharding in ("zigzag", "striped"):
        case = Case(
            sharding=sharding,
            tokens=160,
            later=70,
            heads=4,
            value_dim=32,
            head_dim=32,
            dtype=torch.bfloat16,
            scores=scores,
        )
        answers = world.run(attend, case, [DEVICES[0], "", DEVICES[0]], ranks=3)
        assert max(answer["error"] for answer in answers) < EXACT


def test_devices_alone(world: World) -> None:
    case = Case(tokens=200, later=65, heads=4, dtype=torch.bfloat16)
    answers = world.run(attend, case, DEVICES, ranks=2)
    assert max(answer["error"] for answer in answers) < EXACT


def visit(links: Links, uri: str) -> float:
    """All K and V are the last rank's, in a device; all queries are the others'."""
    case = Case(tokens=200, heads=4, dtype=torch.bfloat16)
    query, key, value = (part[:, :, : case.tokens] for part in random_tokens(case))
    place, last = Sharding.at(links.size - 1, links.size, 0, case.tokens), links.size - 1
    queries = Sharding((*Sharding.striped(case.tokens, last).positions, torch.arange(0)))
    rows = [place.take(links.rank, part, 2) for part in (key, value)]
    kept: Any = Shard(*rows, place, links.rank)
    if links.rank == last:
        shape = {"layers": 1, "kv_heads": case.kv_heads, "head_dim": case.head_dim}
        pool = Pool.create(Device(uri), dtype=Dtype.BF16, **shape)
        for sequence in range(case.batch):
            pool.create_sequence(sequence)
        device = DeviceShard(pool, range(case.batch), 0, links.size, links.rank)
        device.append(kept)
        kept = device
    mine = queries.take(links.rank, query.float(), 2)
    output = TokenRing(links).attend(mine, kept, queries, case.scores)
    wanted = attend_in_one_place(query, key, value, 0, case.scores)
    errors = (output - queries.take(links.rank, wanted, 2)).abs().flatten()
    return float(errors.max()) if len(errors) else 0.0


@pytest.mark.parametrize("uri", DEVICES)
def test_a_device_without_queries_of_its_own(world: World, uri: str) -> None:
    errors = world.run(visit, uri)
    assert max(errors) < EXACT
    assert errors[3] == 0


def test_a_device_reads_as_much_as_it_is_told_to() -> None:
    torch.manual_seed(2)
    device = Device("cpu:?memory=64MiB")
    pool = Pool.create(device, layers=1, kv_heads=1, head_dim=32, max_sequences=4, codes=True)
    read = {}
    for sequence, far in enumerate([FarAttention(), FarAttention(mode=AttendMode.TAIL, top_k=16)]):
        pool.create_sequence(sequence)
        kept = DeviceShard(pool, [sequence], 0, 1, 0, far=far)
        rows = torch.randn(1, 1, 4096, 32).bfloat16()
        kept.append(Shard(rows, rows, Sharding.contiguous(4096, 1), 0))
        pool.reset_stats()
        kept.attend(torch.randn(1, 2, 1, 32), torch.tensor([4096]), Scores(scale=1.0))
        read[far.mode] = pool.stats().near_bytes
    assert read[AttendMode.TAIL] < 0.7 * read[AttendMode.DENSE]
