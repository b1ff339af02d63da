"""Pools whose pages have codes: what approximate modes keep of their promises, and gains."""

from pathlib import Path

import numpy
import pytest

torch = pytest.importorskip("torch")
core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import AttendMode, Device, Error, Pool, RowForm, Select, Status  # noqa: E402
from nearkv.far import FarAttention  # noqa: E402
from nearkv.gains import ENOUGH_QUERIES, GainLearner, load_gains, save_gains  # noqa: E402

pytestmark = pytest.mark.quick

HEADS, DIM, TOKENS, FEW = 2, 64, 4096, 1024
SCALE = DIM**-0.5
ERROR = 0.1


@pytest.fixture(params=["cpu:?memory=64MiB", "model:?memory=64MiB"])
def uri(request: pytest.FixtureRequest) -> str:
    return request.param


def new_pool(uri: str, *, codes: bool = True, **shape) -> Pool:
    shape = {"layers": 2, "kv_heads": HEADS, "head_dim": DIM} | shape
    pool = Pool.create(Device(uri), codes=codes, **shape)
    pool.create_sequence(1)
    return pool


class Stream:
    """K, V and queries of a text of topics: channels differ in size as those of models do."""

    def __init__(self, seed: int = 1) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator)

        size = normal(HEADS, 1, DIM).exp()
        topics = normal(HEADS, TOKENS // 32, DIM).repeat_interleave(32, 1)
        plain = topics + normal(HEADS, TOKENS, DIM)
        self.keys = (plain * size).bfloat16()
        self.values = (0.5 * plain.roll(7, -1) + normal(HEADS, TOKENS, DIM)).bfloat16()
        asked = topics[:, torch.randint(TOKENS // 32, (FEW,), generator=generator)]
        self.queries = (2 * (asked + 0.5 * normal(HEADS, FEW, DIM)) / size).bfloat16()

    def teach(self, pool: Pool, layer: int = 0) -> None:
        """Gives a layer the gains that these queries and keys ask for."""
        heads = slice(0, pool.kv_heads)
        learner = GainLearner(pool)
        learner.note(layer, self.queries[heads], FEW)
        learner.settle(layer, self.keys[heads])

    def append(self, pool: Pool, tokens: slice = slice(None)) -> None:
        pool.append(1, 0, self.keys[:, tokens], self.values[:, tokens])

    def exact(self, queries: torch.Tensor) -> numpy.ndarray:
        logits = queries.double() @ self.keys.double().transpose(1, 2) * SCALE
        return (logits.softmax(-1) @ self.values.double()).numpy()


def worst_error(output: numpy.ndarray, exact: numpy.ndarray) -> float:
    off = numpy.linalg.norm(output - exact, axis=-1) / numpy.linalg.norm(exact, axis=-1)
    return float(off.max())


def read_bytes(pool: Pool, queries: torch.Tensor, **options) -> tuple[numpy.ndarray, int]:
    """The output, and what was read for it."""
    pool.reset_stats()
    output, _ = pool.attend(1, 0, queries.contiguous(), scale=SCALE, **options)
    return output, pool.stats().near_bytes


def test_bounded_keeps_its_bound_and_reads_less_than_half(uri: str) -> None:
    pool, stream = new_pool(uri), Stream()
    stream.teach(pool)
    stream.append(pool)
    queries = stream.queries[:, :3]
    dense, all_bytes = read_bytes(pool, queries)
    bound = numpy.full((HEADS, 3), -1, numpy.float32)
    options = {"mode": AttendMode.BOUNDED, "error": ERROR, "bound": bound}
    output, bytes_read = read_bytes(pool, queries, **options)
    assert pool.stats().dense_fallbacks == 0
    assert worst_error(dense, stream.exact(queries)) < 1e-3
    assert worst_error(output, stream.exact(queries)) <= ERROR
    assert ((bound > 0) & (bound <= ERROR)).all()
    assert bytes_read < all_bytes / 2


def test_tail_reads_less_and_comes_close(uri: str) -> None:
    pool, stream = new_pool(uri), Stream()
    stream.teach(pool)
    stream.append(pool)
    queries = stream.queries[:, :1]
    dense, all_bytes = read_bytes(pool, queries)
    output, bytes_read = read_bytes(pool, queries, mode=AttendMode.TAIL, top_k=256)
    assert worst_error(output, dense) < 0.3
    assert bytes_read < all_bytes / 2


@pytest.mark.parametrize("mode", [AttendMode.BOUNDED, AttendMode.TAIL])
def test_few_tokens_are_read_exactly(uri: str, mode: AttendMode) -> None:
    pool, stream = new_pool(uri), Stream()
    stream.append(pool, tokens=slice(0, 1984))
    queries = stream.queries[:, :2]
    dense, all_bytes = read_bytes(pool, queries)
    output, bytes_read = read_bytes(pool, queries, mode=mode)
    assert worst_error(output, dense) < 1e-5
    assert bytes_read == all_bytes
    assert pool.stats().dense_fallbacks == HEADS


def test_a_statistical_top_k_reads_fewer_rows(uri: str) -> None:
    pool, stream = new_pool(uri), Stream()
    stream.teach(pool)
    stream.append(pool)
    queries = stream.queries[1, :2].contiguous()
    pool.reset_stats()
    exact = pool.top_k(1, 0, 1, queries, 10, scale=SCALE)
    all_bytes = pool.stats().near_bytes
    # The greatest z leaves nothing to chance for rows of this width.
    sure = pool.top_k(1, 0, 1, queries, 10, scale=SCALE, mode=Select.STATISTICAL, z16=255)
    for found, wanted in zip(sure, exact, strict=True):
        numpy.testing.assert_array_equal(found, wanted)
    pool.reset_stats()
    pool.top_k(1, 0, 1, queries, 1, scale=SCALE, mode=Select.STATISTICAL)
    assert 0 < pool.stats().near_bytes < all_bytes / 2


def test_latents_have_codes_too(uri: str) -> None:
    shape = {"kv_heads": 1, "head_dim": DIM, "value_dim": 48, "v_form": RowForm.NONE}
    pool, stream = new_pool(uri, **shape), Stream()
    stream.teach(pool)
    pool.append(1, 0, stream.keys[:1])
    queries = stream.queries[:1, :2]
    dense, all_bytes = read_bytes(pool, queries)
    output, bytes_read = read_bytes(pool, queries, mode=AttendMode.BOUNDED, error=ERROR)
    assert worst_error(output, dense) <= ERROR
    assert bytes_read < all_bytes


def test_learned_gains_read_less_than_none(uri: str) -> None:
    stream, bytes_read = Stream(), {}
    for is_learned in (False, True):
        pool = new_pool(uri)
        assert GainLearner(pool).wants(0)
        if is_learned:
            stream.teach(pool)
        stream.append(pool)
        assert not GainLearner(pool).wants(0)
        options = {"mode": AttendMode.BOUNDED, "error": ERROR}
        _, bytes_read[is_learned] = read_bytes(pool, stream.queries[:, :2], **options)
    assert bytes_read[True] < bytes_read[False]


def test_the_first_page_decides_on_gains(uri: str) -> None:
    pool, stream = new_pool(uri), Stream()
    first, second = GainLearner(pool), GainLearner(pool)
    for learner in (first, second):
        learner.note(0, stream.queries, ENOUGH_QUERIES - 1)
        assert not learner.is_ready(0)
    first.note(0, stream.queries, 1)
    assert first.is_ready(0)
    assert pool.gains(0, 0) is None
    first.settle(0, stream.keys)
    stream.append(pool)
    gains = pool.gains(0, 1)
    assert (gains.dtype, gains.shape) == (numpy.int8, (DIM,))
    second.settle(0, stream.keys)
    numpy.testing.assert_array_equal(pool.gains(0, 1), gains)
    assert second.is_ready(0)
    assert second.wants(1)
    with pytest.raises(Error, match="other gains") as failure:
        pool.set_gains(0, 1, gains + 1)
    assert failure.value.status == Status.EXISTS


def test_gains_go_from_pool_to_pool_in_a_file(tmp_path: Path) -> None:
    path, stream = tmp_path / "gains.npz", Stream()
    pool, other = new_pool("cpu:?memory=64MiB"), new_pool("cpu:?memory=64MiB")
    with pytest.raises(ValueError, match="has no gains yet"):
        save_gains(pool, path)
    for layer in range(2):
        stream.teach(pool, layer)
    save_gains(pool, path)
    load_gains(other, path)
    for layer, head in numpy.ndindex(2, HEADS):
        numpy.testing.assert_array_equal(pool.gains(layer, head), other.gains(layer, head))
    with pytest.raises(ValueError, match=r"needs int8 \[1, 2, 64\]"):
        load_gains(new_pool("cpu:?memory=64MiB", layers=1), path)


def test_a_pool_without_codes_says_so() -> None:
    pool = new_pool("cpu:?memory=64MiB", codes=False)
    assert not pool.codes
    assert not GainLearner(pool).wants(0)
    with pytest.raises(Error, match="the pool has no codes"):
        pool.set_gains(0, 0, numpy.zeros(DIM, numpy.int8))
    FarAttention().check(pool)
    with pytest.raises(ValueError, match="codes=True"):
        FarAttention(mode=AttendMode.BOUNDED).check(pool)
    FarAttention(mode=AttendMode.BOUNDED).check(new_pool("cpu:?memory=64MiB"))
