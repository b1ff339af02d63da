"""Pages of a cache that is registered once: named by numbers, filled and stored in place."""

import array
import gc
import weakref

import numpy
import pytest
import torch

store_module = pytest.importorskip("nearkv.store", exc_type=ImportError)
from nearkv.store import Namespace, ObjectStore, Pages, Status  # noqa: E402

pytestmark = pytest.mark.quick

LAYERS, BLOCKS, PAGE_BYTES = 3, 8, 512


def cache(seed: int = 1) -> list[numpy.ndarray]:
    """Layers of [blocks, bytes]."""
    random = numpy.random.default_rng(seed)
    return [random.integers(0, 256, (BLOCKS, PAGE_BYTES), numpy.uint8) for _ in range(LAYERS)]


def object_of(layers: list[numpy.ndarray], block: int) -> bytes:
    return b"".join(layer[block].tobytes() for layer in layers)


def keys_of(count: int) -> list[bytes]:
    return [b"block %06d" % i for i in range(count)]


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([5, 0, 7], id="list"),
        pytest.param(range(5, 8), id="range"),
        pytest.param(array.array("q", [5, 0, 7]), id="array"),
        pytest.param(numpy.array([5, 0, 7], numpy.int32), id="int32"),
        pytest.param(numpy.array([7, 1, 0, 1, 5, 1])[::-2], id="strided int64"),
        pytest.param(torch.tensor([5, 0, 7]), id="torch"),
    ],
)
def test_blocks_are_named_by_numbers_of_any_kind(blocks: Namespace, numbers) -> None:
    layers = cache()
    blocks.set(keys_of(3), Pages(layers).of(numbers)).check()
    for key, block in zip(keys_of(3), numbers, strict=True):
        assert blocks[key] == object_of(layers, int(block))


def test_blocks_are_filled_and_others_stay(blocks: Namespace) -> None:
    stored, filled = cache(1), cache(2)
    before = [layer.copy() for layer in filled]
    blocks.set(keys_of(3), Pages(stored).of([1, 2, 3])).check()
    result = blocks.submit_get(keys_of(3), Pages(filled).of([6, 0, 4])).wait().check()
    assert result.object_bytes == [LAYERS * PAGE_BYTES] * 3
    for block in range(BLOCKS):
        source = {6: 1, 0: 2, 4: 3}.get(block)
        wanted = object_of(before, block) if source is None else object_of(stored, source)
        assert object_of(filled, block) == wanted


@pytest.mark.parametrize(
    "lend",
    [
        pytest.param(lambda wide: wide[:, :100], id="numpy, part of each row"),
        pytest.param(lambda wide: torch.from_numpy(wide)[:, :100], id="torch, part of each row"),
        pytest.param(
            lambda wide: torch.from_numpy(wide).view(torch.bfloat16).view(8, 4, 64)[:, :2],
            id="bfloat16, three axes",
        ),
        pytest.param(lambda wide: wide[::2, :100], id="every other row"),
    ],
)
def test_bytes_between_pages_are_not_touched(blocks: Namespace, lend) -> None:
    wide, other = cache(1)[0], cache(2)[0]
    untouched = wide.copy()
    pages = Pages([lend(wide)])
    blocks.set(b"key", Pages([lend(other)]).of([1])).check()
    blocks.get(b"key", pages.of([2])).check()
    lend(untouched)[2] = lend(other)[1]
    assert (wide == untouched).all()
    assert len(blocks[b"key"]) == pages.block_bytes


def test_layers_are_stored_and_read_alone(blocks: Namespace) -> None:
    layers, target = cache(1), cache(2)
    pages, numbers = Pages(layers), [3, 4]
    options = {"object_bytes": pages.block_bytes, "parts": LAYERS, "part_count": 1}
    for layer in (2, 0, 1):
        assert blocks.exists(keys_of(2)) == 0
        memory = pages.of(numbers, layer, 1)
        blocks.set_parts(keys_of(2), memory, first_part=layer, **options).check()
    blocks.get(keys_of(2), Pages(target).of(numbers, 1), first_part=1, part_count=2).check()
    assert (target[0] == cache(2)[0]).all()
    assert all((target[i][3:5] == layers[i][3:5]).all() for i in (1, 2))


def test_keys_may_be_rows_of_an_array(blocks: Namespace) -> None:
    rows = numpy.frombuffer(b"key 0..key 1..key 2..", numpy.uint8).reshape(3, 7)[:, :-2]
    layers = cache()
    blocks.set(rows, Pages(layers).of([0, 1, 2])).check()
    assert blocks[b"key 1"] == object_of(layers, 1)
    assert blocks.present(rows[::-1]) == [True] * 3
    assert blocks.exists([b"key 0..", b"key 1.."]) == 0
    assert blocks.erase(rows[1:]).bitmap == [True, True]
    with pytest.raises(Exception, match=f"key {b'key 2'.hex()}"):
        blocks.get(rows[2:], Pages(layers).of([2])).check()


def test_an_object_of_another_size_is_not_whole(blocks: Namespace) -> None:
    layers = cache()
    pages = Pages(layers)
    blocks.set(keys_of(3), [b"short", b"x" * pages.block_bytes, b"x" * 5000]).check()
    result = blocks.get([*keys_of(3), b"missing"], pages.of([0, 1, 2, 3]))
    assert result.whole(pages.block_bytes) == [False, True, False, False]
    assert result.statuses[2:] == [Status.BAD_ARGUMENT, Status.NOT_FOUND]
    assert (layers[0][2] == cache()[0][2]).all()
    assert blocks.get([keys_of(3)[1]], pages.of([1])).whole(pages.block_bytes) == [True]


def test_a_cache_lives_as_long_as_its_pages_and_their_jobs(
    store: ObjectStore, blocks: Namespace
) -> None:
    layers = [numpy.zeros((40, 1 << 20), numpy.uint8)]
    life = weakref.ref(layers[0])
    pages = Pages(layers)
    del layers
    gc.collect()
    assert life() is not None
    job = blocks.submit_set(keys_of(40), pages.of(range(40)))
    del pages
    gc.collect()
    assert life() is not None
    assert job.wait().all_ok
    gc.collect()
    assert life() is None


@pytest.mark.parametrize(
    ("kind", "text", "call"),
    [
        (ValueError, "no block 8, but 8", lambda p: p.of([0, BLOCKS])),
        (ValueError, "no block -1", lambda p: p.of(numpy.array([-1]))),
        (ValueError, "no block 2147483647", lambda p: p.of(numpy.array([2**31 - 1], "i4"))),
        (TypeError, "integers, not float", lambda p: p.of([1.5])),
        (TypeError, "integers, not int", lambda p: p.of([2**63])),
        (TypeError, "int32 or int64", lambda p: p.of(numpy.array([1.5]))),
        (TypeError, "int32 or int64", lambda p: p.of(numpy.array([[1]]))),
        (ValueError, "there are 3 layers", lambda p: p.of([0], LAYERS)),
        (ValueError, "there are 3 layers", lambda p: p.of([0], 1, 3)),
        (ValueError, "there are 3 layers", lambda p: p.of([0], 1, 2**64 - 1)),
        (ValueError, "there must be a layer", lambda p: Pages([])),
        (TypeError, "layer 1 must be a writable array.*not a bytes",
         lambda p: Pages([numpy.zeros((2, 2)), b"12"])),
        (TypeError, "layer 0 must be.*not a Tensor",
         lambda p: Pages([torch.empty(4, 2, device="meta")])),
        (ValueError, "layer 1 has 3 blocks, not 2",
         lambda p: Pages([numpy.zeros((2, 2)), numpy.zeros((3, 2))])),
        (ValueError, "contiguous", lambda p: Pages([numpy.zeros((2, 4))[:, ::2]])),
        (ValueError, "contiguous", lambda p: Pages([numpy.zeros((2, 4, 4)).swapaxes(1, 2)])),
        (ValueError, "bytes of their own", lambda p: Pages([numpy.zeros((4, 4))[::-1]])),
        (ValueError, "bytes of their own", lambda p: Pages([torch.zeros(1, 4).expand(3, 4)])),
        (ValueError, "bytes of their own", lambda p: Pages([numpy.zeros((2, 0))])),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(kind, text, call) -> None:
    with pytest.raises(kind, match=text):
        call(Pages(cache()))


@pytest.mark.parametrize(
    ("kind", "text", "call"),
    [
        (ValueError, "2 blocks are not one for each", lambda b, p: b.set([b"a"], p.of([0, 1]))),
        (ValueError, "1 blocks are not one for each", lambda b, p: b.get(keys_of(2), p.of([0]))),
        (TypeError, "rows of uint8", lambda b, p: b.set(numpy.zeros((1, 4)), p.of([0]))),
        (TypeError, "rows of uint8", lambda b, p: b.set(numpy.zeros(4, "u1"), p.of([0]))),
        (ValueError, "row of keys must be contiguous",
         lambda b, p: b.set(numpy.zeros((1, 4), "u1")[:, ::2], p.of([0]))),
    ],
)  # fmt: skip
def test_what_does_not_fit_changes_nothing(
    store: ObjectStore, blocks: Namespace, kind, text, call
) -> None:
    with pytest.raises(kind, match=text):
        call(blocks, Pages(cache()))
    assert store.stats().objects == 0
