"""The object store from Python: memory of any kind, partial success, layers, wrong arguments."""

import array
import errno
import mmap
import re

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

store_module = pytest.importorskip("nearkv.store", exc_type=ImportError)
import _nearkv  # noqa: E402

from nearkv.store import (  # noqa: E402
    MAX_OBJECT_BYTES,
    Error,
    Namespace,
    ObjectStore,
    Status,
    StoreEventKind,
)
from nearkv.store.settings import StoreSettings  # noqa: E402

pytestmark = pytest.mark.quick


def contents(seed: int, size: int) -> bytes:
    return numpy.random.default_rng(seed).bytes(size)


def keys_of(count: int) -> list[bytes]:
    return [b"block %06d" % i for i in range(count)]


def lend_mmap(data: bytes):
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memory


LENDERS = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": lambda data: memoryview(bytearray(data)),
    "mmap": lend_mmap,
    "array": lambda data: array.array("H", data),
    "numpy": lambda data: numpy.frombuffer(bytearray(data), numpy.uint32),
    "numpy 3 axes": lambda data: numpy.frombuffer(bytearray(data), numpy.uint16).reshape(2, -1, 5),
    "torch": lambda data: torch.frombuffer(bytearray(data), dtype=torch.float32),
    "torch bfloat16": lambda data: torch.frombuffer(bytearray(data), dtype=torch.bfloat16),
    "pieces": lambda data: [data[:7], bytearray(data[7:900]), numpy.frombuffer(data[900:], "u1")],
}


def bytes_in(memory) -> bytes:
    if isinstance(memory, torch.Tensor):
        return memory.view(torch.uint8).numpy().tobytes()
    return memory[:] if isinstance(memory, mmap.mmap) else bytes(memoryview(memory).cast("B"))


@pytest.mark.parametrize("lender", LENDERS)
def test_memory_of_any_kind_is_stored(blocks: Namespace, lender: str) -> None:
    data = contents(1, 4000)
    blocks.set(b"key", LENDERS[lender](data)).check()
    assert blocks[b"key"] == data


@pytest.mark.parametrize("lender", [name for name in LENDERS if name not in ("bytes", "pieces")])
def test_memory_of_any_kind_is_filled_in_place(blocks: Namespace, lender: str) -> None:
    data = contents(2, 4000)
    blocks.set(b"key", data).check()
    target = LENDERS[lender](bytes(4000))
    result = blocks.get(b"key", target).check()
    assert bytes_in(target) == data
    assert (result.object_bytes, result.buffers) == ([4000], None)


def test_rows_of_one_array_are_blocks(blocks: Namespace) -> None:
    rows = torch.arange(6 * 1000, dtype=torch.int32).reshape(6, 1000)
    keys = keys_of(6)
    blocks.set(keys, rows).check()
    found = torch.zeros_like(rows)
    blocks.get(keys[::-1], found.flip(0)).check()  # flip() copies: nothing arrives in `found`.
    assert not found.any()
    blocks.get(keys[::-1], [found[i] for i in range(6)]).check()
    assert (found == rows.flip(0)).all()


@given(
    objects=st.dictionaries(
        st.binary(min_size=1, max_size=80), st.integers(1, 100_000), min_size=1, max_size=8
    ),
    cuts=st.lists(st.integers(0, 100_000), max_size=4),
)
@settings(max_examples=50, deadline=None)
def test_objects_of_any_key_size_and_pieces_come_back(objects: dict, cuts: list[int]) -> None:
    with ObjectStore.create("cpu:?memory=16MiB&huge=off") as store:
        blocks = store.namespace()
        data = {key: contents(size, size) for key, size in objects.items()}
        edges = [0, *sorted(cuts)]
        pieces = [
            [whole[a:b] for a, b in zip(edges, [*edges[1:], len(whole)], strict=True)]
            for whole in data.values()
        ]
        assert blocks.set(data, pieces).bitmap == [True] * len(data)
        assert blocks.get(data).check().buffers == list(data.values())
        targets = [[bytearray(min(size, 100)), bytearray(size)] for size in objects.values()]
        blocks.get(data, targets).check()
        for (first, second), whole in zip(targets, data.values(), strict=True):
            assert (first + second)[: len(whole)] == whole
        assert {info.bytes for info in store.objects()} == set(objects.values())


def test_large_objects_up_to_the_largest() -> None:
    with ObjectStore.create("cpu:?memory=160MiB") as store:
        blocks = store.namespace()
        data = numpy.arange(80 << 17)
        blocks.set(b"large", data).check()
        assert (numpy.frombuffer(blocks[b"large"], data.dtype) == data).all()


def test_what_is_too_large_is_named_with_its_size_and_the_limit(blocks: Namespace) -> None:
    piece = bytes(1 << 20)
    pieces = [piece] * (MAX_OBJECT_BYTES // len(piece) + 1)
    text = f"object is too large.* {MAX_OBJECT_BYTES} .*has {MAX_OBJECT_BYTES + len(piece)} bytes"
    for result in (blocks.set(b"key", pieces), blocks.submit_set(b"key", pieces).wait()):
        with pytest.raises(Error, match=text):
            result.check()
    with pytest.raises(ValueError, match="1025 parts are too many; an object may have 1024"):
        blocks.set(b"key", bytes(4000), parts=1025)
    blocks.set(b"key", bytes(4000)).check()
    with pytest.raises(Error, match="memory for it must hold 4000 bytes"):
        blocks.get(b"key", bytearray(3999)).check()
    with (
        ObjectStore.create("cpu:?memory=16MiB") as store,
        pytest.raises(Error, match="960 bytes; the model's name has 955, the dtype 4 and the lay"),
    ):
        store.namespace("m" * 955, "bf16", "NH")


def test_a_namespace_is_open_as_long_as_python_has_it() -> None:
    with ObjectStore.create("cpu:?memory=16MiB", max_namespaces=4) as store:
        for user in range(20):
            blocks = store.namespace("model", salt=b"user %d" % user)
            assert b"key" not in blocks
            blocks.set(b"key", b"theirs").check()
            blocks.erase(b"key").check()
        spaces = [store.namespace("model", salt=b"%d" % user) for user in range(3)]
        with pytest.raises(Error) as error:
            store.namespace("one more")
        assert error.value.status == Status.NAMESPACES_FULL
        job = spaces.pop().submit_set(b"key", bytes(100))  # Holds it open until it is over.
        assert job.wait().all_ok
        assert [info.users for info in store.namespaces()] == [1, 1, 1, 1]
        del job
        with pytest.raises(Error, match="max_namespaces"):
            store.namespace("one more")  # What was stored is there yet.


def test_part_of_a_batch_may_fail(blocks: Namespace) -> None:
    keys = keys_of(4)
    blocks.set(keys[:3], [b"one", b"three", b"four!"]).check()
    small = bytearray(2)
    result = blocks.get([keys[0], keys[3], keys[1], keys[2]], [bytearray(9), small, small, small])
    wrong = Status.BAD_ARGUMENT
    assert result.statuses == [Status.OK, Status.NOT_FOUND, wrong, wrong]
    assert result.bitmap == [True, False, False, False]
    assert result.object_bytes == [3, 0, 5, 5]
    assert (len(result), result.leading, result.all_ok) == (4, 1, False)
    with pytest.raises(Error, match=f"{keys[3].hex()}: no such") as failure:
        result.check()
    assert isinstance(failure.value, OSError)
    assert (failure.value.status, failure.value.errno) == (Status.NOT_FOUND, errno.ENOENT)
    fresh = blocks.get([keys[3], keys[1]])
    assert (fresh.bitmap, fresh.buffers) == ([False, True], [None, b"three"])
    assert blocks.erase(keys).leading == 3
    assert repr(blocks.get(keys)) == "<JobResult: 0 of 4 OK>"


def test_a_get_into_fresh_memory_counts_each_object_once(
    store: ObjectStore, blocks: Namespace
) -> None:
    blocks.set(keys_of(3), [b"a", b"b", b"c"])
    blocks.get(keys_of(5))
    assert (store.stats().hits, store.stats().misses) == (3, 2)


def test_a_namespace_is_a_mapping(blocks: Namespace) -> None:
    blocks[b"key"] = b"first"
    blocks[b"key"] = numpy.arange(3, dtype=numpy.uint8)
    assert blocks[b"key"] == b"\x00\x01\x02"
    assert b"key" in blocks
    del blocks[b"key"]
    assert b"key" not in blocks
    for call in (lambda: blocks[b"key"], lambda: blocks.__delitem__(b"key")):
        with pytest.raises(KeyError, match="key"):
            call()


def test_namespaces_that_differ_in_anything_share_nothing(store: ObjectStore) -> None:
    differences = ({}, {"tenant": 1}, {"rank": 1}, {"group": 1}, {"salt": b"a\0b"}, {"salt": b"a"})
    spaces = [store.namespace("llama", "bf16", "LBHNC", **one) for one in differences]
    for i, space in enumerate(spaces):
        space[b"key"] = bytes([i] * 10)
    assert [space[b"key"][0] for space in spaces] == list(range(len(spaces)))
    assert store.namespace("llama", "bf16", "LBHNC", rank=1).number == spaces[2].number
    infos = store.namespaces()
    assert (infos[2].text, infos[1].tenant) == ("llama bf16 LBHNC rank 1 group 0", 1)
    assert store.stats().namespaces == len(spaces)


def test_questions_by_key(blocks: Namespace) -> None:
    keys = keys_of(10)
    blocks.set(keys[:4], [b"x"] * 4, chain=True)
    blocks.set(keys[4:6], [b"x"] * 2, chain=True, parent=keys[3])
    blocks.set(keys[8], b"x")
    assert blocks.exists(keys) == 6
    assert blocks.present(keys[5:]) == [True, False, False, True, False]
    assert blocks.match_prefix(keys) == 6
    assert blocks.erase(keys[2]).all_ok
    assert blocks.match_prefix(keys) == 2
    assert blocks.submit_exists(keys).wait().bitmap == [i in (0, 1, 3, 4, 5, 8) for i in range(10)]


def test_touched_objects_stay_longest() -> None:
    with ObjectStore.create("cpu:?memory=16MiB", eviction="lru") as store:
        blocks = store.namespace()
        keys = keys_of(40)
        for i, key in enumerate(keys):
            blocks.set(key, contents(i, 1 << 20)).check()
            blocks.touch(keys[:1])
        assert store.stats().evictions > 0
        assert blocks.present(keys[:2]) == [True, False]


def test_leased_objects_stay(store: ObjectStore, blocks: Namespace) -> None:
    keys = keys_of(3)
    blocks.set(keys[:2], [b"a", b"b"])
    with blocks.pin(keys, duration_s=100) as lease:
        assert lease.statuses == [Status.OK, Status.OK, Status.NOT_FOUND]
        assert blocks.erase(keys[0]).statuses == [Status.BUSY]
        assert store.stats().leases == 1
    assert blocks.erase(keys[0]).all_ok
    assert not lease.unpin()
    assert blocks.pin([]).id == 0
    with pytest.raises(ValueError, match="duration_s must be 0 to 1e9 seconds"):
        blocks.pin(keys, duration_s=float("nan"))


def test_a_store_tells_what_it_holds(store: ObjectStore) -> None:
    blocks = store.namespace("llama", tenant=7)
    blocks.set(b"a", contents(1, 9000), parts=3, age_s=1000)
    blocks.set(b"k" * 50, b"12")
    first, second = store.objects()
    assert (first.key, first.bytes, first.parts, first.tenant) == (b"a", 9000, 3, 7)
    assert (first.expires_s - first.created_s, first.leased) == (1000, False)
    assert (second.key_is_digest, len(second.key)) == (True, 32)
    progress = store.verify()
    assert (progress.objects, progress.bytes, progress.damaged) == (2, 9002, 0)
    assert store.verify(most=1).next == 1
    store.set_quota(7, 4096)
    assert store.stats().objects == 1
    assert store.defragment() >= 0


def test_layers_are_read_alone(blocks: Namespace) -> None:
    keys, layers = keys_of(3), 8
    data = numpy.stack([numpy.frombuffer(contents(i, 8 * 1000), "u1") for i in range(3)])
    data = data.reshape(3, layers, 1000)
    blocks.set(keys, data, parts=layers).check()
    assert blocks.get(keys[1], first_part=2, part_count=3).buffers == [data[1, 2:5].tobytes()]
    for ahead in (0, 1, 20):
        seen = [result.check().buffers for result in blocks.layers(keys, layers, ahead=ahead)]
        assert seen == [[part.tobytes() for part in data[:, i]] for i in range(layers)]
    targets = numpy.zeros((layers, 3, 1000), "u1")
    for i, result in enumerate(blocks.layers(keys, layers, targets)):
        assert result.all_ok
        assert (targets[i] == data[:, i]).all()
    assert blocks.get(keys, first_part=7, part_count=2).statuses == [Status.BAD_ARGUMENT] * 3


def test_layers_are_stored_alone_and_seen_together(blocks: Namespace) -> None:
    keys, layers = keys_of(2), 4
    data = [contents(i, layers * 1000) for i in range(2)]
    options = {"parts": layers, "object_bytes": layers * 1000, "part_count": 1}
    for part in (2, 0, 3, 1):
        assert blocks.exists(keys) == 0
        sources = [memoryview(block)[part * 1000 : (part + 1) * 1000] for block in data]
        blocks.set_parts(keys, sources, first_part=part, **options).check()
    found = blocks.describe(keys[1])
    assert (found.parts, found.bytes) == (layers, layers * 1000)
    assert blocks.describe(b"nothing") is None
    assert blocks.get(keys, quiet=True).check().buffers == data


def test_changes_are_told(store: ObjectStore, blocks: Namespace) -> None:
    store.watch(2)
    for key in (b"a", b"b"):
        blocks[key] = b"1234"
    del blocks[b"a"]
    events, missed = store.take_events()
    assert [(event.kind, event.key, event.bytes) for event in events] == [
        (StoreEventKind.STORED, b"b", 4),
        (StoreEventKind.ERASED, b"a", 4),
    ]
    assert missed == 1
    assert store.take_events() == ([], 0)


def test_stores_on_top_of_each_other_are_one(tmp_path) -> None:
    fast = ObjectStore.create("cpu:?memory=8MiB")
    slow = ObjectStore.create(f"file:{tmp_path / 'slow'}?memory=64MiB")
    with ObjectStore.stack([fast, slow], patience_s=10) as store:
        assert fast.closed and slow.closed
        blocks = store.namespace("llama")
        keys, data = keys_of(40), [contents(i, 500_000) for i in range(40)]
        for key, block in zip(keys, data, strict=True):
            blocks[key] = block
        assert blocks.exists(keys) == 40
        assert blocks.get(keys).check().buffers == data
        assert store.stats().demotions > 0
        assert store.stats().evictions == 0
        assert [tier.objects > 0 for tier in store.tier_stats()] == [True, True]
    with ObjectStore.create("cpu:?memory=8MiB") as busy:
        job = busy.namespace().submit_set(b"key", b"value")
        with pytest.raises(ValueError, match="jobs in flight"):
            ObjectStore.stack([busy])
        assert job.wait().all_ok


@pytest.mark.parametrize("options", [{"low_watermark": 0.95}, {"high_watermark": 1.5}])
def test_options_that_make_no_sense_leave_the_tiers_alone(options: dict[str, float]) -> None:
    tiers = [ObjectStore.create("cpu:?memory=8MiB") for _ in range(2)]
    job = tiers[0].namespace().submit_set(b"key", b"value")
    assert job.wait().all_ok
    with pytest.raises(Error, match="watermarks are fractions"):
        ObjectStore.stack(tiers, **options)
    with pytest.raises(Error, match="at least two"):
        ObjectStore.stack(tiers[:1])
    assert tiers[0].namespace()[b"key"] == b"value"
    with ObjectStore.stack(tiers) as store:
        assert store.namespace()[b"key"] == b"value"


@pytest.mark.parametrize("other", ["busy", "closed", "itself", "none"])
def test_tiers_that_are_refused_keep_what_they_hold(other: str) -> None:
    fast, busy = (ObjectStore.create("cpu:?memory=8MiB") for _ in range(2))
    with fast, busy:
        fast.namespace()[b"key"] = b"value"
        job = busy.namespace().submit_set(b"key", b"value")
        closed = ObjectStore.create("cpu:?memory=8MiB")
        closed.close()
        second = {"busy": busy, "closed": closed, "itself": fast, "none": None}[other]
        with pytest.raises(ValueError, match=r"jobs in flight|is closed|is no store"):
            _nearkv.ObjectStore.stack([fast._core, second and second._core])
        assert not fast.closed
        assert fast.namespace()[b"key"] == b"value"
        assert job.wait().all_ok


def test_a_store_at_rest_needs_its_key(tmp_path) -> None:
    uri = f"cpu:{tmp_path / 'blocks'}?memory=16MiB&huge=off"
    key_file = tmp_path / "key"
    key_file.touch(mode=0o600)
    key_file.write_bytes(contents(1, 32))
    with ObjectStore.create(uri, seal_key_file=str(key_file)) as store:
        store.namespace()[b"key"] = b"secret"
        store.set_wipe(0, True)
    assert b"secret" not in (tmp_path / "blocks").read_bytes()
    with ObjectStore.open(uri) as store:
        assert store.namespace().get(b"key").statuses == [Status.DENIED]
    with ObjectStore.open(uri, seal_key_file=str(key_file)) as store:
        assert store.namespace()[b"key"] == b"secret"


def test_a_store_in_a_file_is_found_again(tmp_path) -> None:
    uri = f"cpu:{tmp_path / 'blocks'}?memory=16MiB&huge=off"
    with pytest.raises(Error) as failure:
        ObjectStore.open(uri)
    assert failure.value.status == Status.BAD_POOL
    with ObjectStore.create(uri) as store:
        store.namespace("llama")[b"key"] = b"value"
    assert store.closed
    with ObjectStore.open(uri) as store:
        assert store.namespace("llama")[b"key"] == b"value"
        assert store.stats().recovered == 1


def test_a_closed_store_says_so(store: ObjectStore, blocks: Namespace) -> None:
    job = blocks.submit_set(b"key", b"value")
    assert job.wait().all_ok
    store.close()
    store.close()
    assert job.done()
    assert job.wait().all_ok
    for call in (
        lambda: blocks.get(b"key"),
        lambda: blocks.submit_get(b"key", bytearray(5)),
        lambda: blocks.exists(b"key"),
        store.stats,
        store.drain,
        lambda: store.event_fd,
    ):
        with pytest.raises(ValueError, match="the store is closed"):
            call()


@pytest.mark.parametrize(
    ("kind", "text", "call"),
    [
        (TypeError, "keys are bytes, not str", lambda b: b.get("key")),
        (TypeError, "keys are bytes, not int", lambda b: b.exists([b"a", 1])),
        (TypeError, "keys are bytes, not bytearray", lambda b: b.touch([bytearray(b"a")])),
        (TypeError, "int lends no memory; give", lambda b: b.set(b"key", 5)),
        (TypeError, "NoneType lends no memory", lambda b: b.set([b"key"], [None])),
        (TypeError, "one deep", lambda b: b.set(b"key", [[b"a"]])),
        (TypeError, "incompatible function arguments", lambda b: b.set(b"key", b"a", part=2)),
        (TypeError, "Tensor lends no", lambda b: b.set(b"key", torch.empty(4, device="meta"))),
        (ValueError, "bytes lends no writable", lambda b: b.get(b"key", b"12345")),
        (ValueError, "ndarray lends no writable", lambda b: b.get(b"key", read_only())),
        (ValueError, "contiguous", lambda b: b.set(b"key", numpy.ones((4, 4))[:, 1])),
        (ValueError, "contiguous", lambda b: b.set(b"key", torch.ones(4, 4)[:, 1])),
        (ValueError, "contiguous", lambda b: b.set(b"key", memoryview(b"abcd")[::2])),
        (ValueError, "one buffer, or list of buffers, per key", lambda b: b.set([b"a"], [])),
        (ValueError, "one buffer, or list of buffers, per key",
         lambda b: b.get([b"a"], [bytearray(1)] * 2)),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_and_change_nothing(
    store: ObjectStore, blocks: Namespace, kind, text, call
) -> None:
    with pytest.raises(kind, match=text):
        call(blocks)
    assert store.stats().objects == 0
    assert store.drain() == []


def read_only() -> numpy.ndarray:
    array = numpy.zeros(5, "u1")
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("uri", "options", "status", "text"),
    [
        ("model:", {}, Status.BAD_URI, "memory of this machine"),
        ("cpu:?memory=lots", {}, Status.BAD_URI, "memory"),
        ("cpu:?memory=16MiB", {"eviction": "fifo"}, Status.BAD_ARGUMENT, "fifo"),
    ],
)
def test_a_store_that_cannot_be_says_why(uri: str, options: dict, status, text: str) -> None:
    with pytest.raises(Error, match=text) as failure:
        ObjectStore.create(uri, **options)
    assert failure.value.status == status


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "an adapter needs a uri or the socket of a daemon"),
        ({"uri": "cpu:", "socket": "x"}, "and not both"),
        ({"url": "cpu:"}, "no option 'url'; is uri meant?"),
        ({"uri": "tape:"}, "tape"),
        ({"socket": "/nonexistent/nearkv.sock"}, "/nonexistent/nearkv.sock"),
    ],
)
def test_settings_that_give_no_store_are_refused_with_why(settings: dict, text: str) -> None:
    with pytest.raises((ValueError, Error), match=re.escape(text)):
        StoreSettings.parse("an adapter", settings).open()
