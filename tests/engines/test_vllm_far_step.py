"""Attention of vLLM's batches, partly in a pool, without an engine: beside attention in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from nearkv.core import Device, Dtype, Pool, RowForm  # noqa: E402
from nearkv.far import FarAttention  # noqa: E402
from nearkv.vllm.far_pages import FarPages  # noqa: E402
from nearkv.vllm.far_step import FarStep, LayerAttention  # noqa: E402
from nearkv.vllm.kv_rows import KVRows, RowLayout  # noqa: E402

LAYERS, HEADS, KV_HEADS, DIM, BLOCKS, WINDOW_TOKENS = 2, 4, 2, 64, 60, 64
SCALE = DIM**-0.5
FAR = FarAttention()
RAW_FORMS = {"k_form": RowForm.RAW, "v_form": RowForm.RAW}


def kernel_layout(block_tokens: int) -> KVRows:
    """As vLLM's kernels for any CPU pack rows: K by channels, V by tokens."""
    half = block_tokens * DIM
    keys = RowLayout(0, 1, 1, (1, 1, block_tokens, block_tokens))
    return KVRows(DIM, keys, RowLayout(half, 1, 1, (DIM, DIM, 1, 1)))


class Engine:
    """Caches of random K and V, and requests whose blocks are scattered over them."""

    def __init__(
        self,
        *,
        block_tokens=32,
        dtype="float32",
        sliding=0,
        soft_cap=0.0,
        is_verified=False,
        shared_tokens=0,
        codes=False,
        forms=None,
    ) -> None:
        self.block_tokens, self.sliding, self.soft_cap = block_tokens, sliding, soft_cap
        self.is_verified = is_verified
        self.shared_blocks = shared_tokens // block_tokens
        self.dtype = getattr(torch, dtype)
        shape = LAYERS, BLOCKS, KV_HEADS, block_tokens, 2 * DIM
        torch.manual_seed(1)
        self.caches = list(torch.randn(shape).bfloat16().to(self.dtype))
        self.reader = kernel_layout(block_tokens)
        options = {"kv_heads": KV_HEADS, "head_dim": DIM, "dtype": Dtype.BF16, "codes": codes}
        self.memory = np.zeros(64 << 20, np.uint8)
        device = Device("cpu:?verify=always", memory=self.memory)
        pool = Pool.create(device, layers=LAYERS, **options, **(forms or {}))
        self.pages = FarPages(pool, block_tokens, WINDOW_TOKENS, sliding)
        self.order = np.random.default_rng(1).permutation(np.arange(1, BLOCKS))

    def step(self, lengths: list[int], queries: list[int]) -> tuple[int, float]:
        """How many tokens attended to the pool, and the largest error of their outputs."""
        tables = np.zeros((len(lengths), 2048 // self.block_tokens), np.int32)
        for number, (table, length) in enumerate(zip(tables, lengths, strict=True)):
            shared, own = np.split(self.order, [self.shared_blocks])
            blocks = own[number :: len(lengths)]
            if number < len(lengths) - 1:  # All but the last request begin alike.
                blocks = np.concatenate([shared, blocks])
            count = -(-length // self.block_tokens)
            table[:count] = blocks[:count]
        batch = list(zip(tables, lengths, queries, strict=True))
        written = [self._slots(table, np.arange(end - new, end)) for table, end, new in batch]
        rows = self.pages.begin(tables, lengths, queries, np.concatenate(written))
        self.rows = rows
        starts = np.cumsum([0, *queries]).tolist()
        device, part = torch.device("cpu"), lambda rows: None
        step = FarStep(self.pages, FAR, rows, starts, device, self.is_verified, part)
        attended, worst = 0, 0.0
        for number, cache in enumerate(self.caches):
            layer = LayerAttention(number, SCALE, self.soft_cap, self.sliding)
            query = torch.randn(starts[-1], HEADS, DIM).to(self.dtype)
            output = torch.full_like(query, torch.nan)
            step.verify(layer, cache, self.reader)
            step.attend(layer, query, output, cache, self.reader)
            step.store(layer, query, cache, self.reader)
            for begin, (table, end, new) in zip(starts, batch, strict=False):
                mine = output[begin : begin + new]
                if not mine.isnan().all():
                    right = self._attention(query[begin : begin + new], cache, table, end)
                    attended += new
                    error = float((mine.double() - right).abs().max())
                    worst = float(np.maximum(worst, error))  # NaN, if one is.
        return attended, worst

    def overwrite(self) -> None:
        """Other tokens in all blocks, of which nobody is told."""
        for cache in self.caches:
            cache.copy_(torch.randn(cache.shape).bfloat16())

    def damage_first_page(self, request: int) -> None:
        """Flips a bit of a request's first key in layer 0."""
        sequence = self.rows[request].sequence.number
        ((keys, _), *_) = self.pages.pool.rows_in_place(sequence, 0, 0)
        self.memory[keys.ctypes.data - self.memory.ctypes.data] ^= 1

    def _slots(self, table: np.ndarray, positions: np.ndarray) -> np.ndarray:
        blocks = table[positions // self.block_tokens].astype(np.int64)
        return blocks * self.block_tokens + positions % self.block_tokens

    def _attention(self, query, cache, table: np.ndarray, length: int) -> torch.Tensor:
        positions = torch.arange(length)
        slots = torch.from_numpy(self._slots(table, positions.numpy()))
        both = self.reader.read(cache, self.reader.places(cache, slots))
        keys, values = (part.double().repeat_interleave(HEADS // KV_HEADS, 1) for part in both)
        logits = torch.einsum("qhd,khd->hqk", query.double(), keys) * SCALE
        if self.soft_cap:
            logits = self.soft_cap * torch.tanh(logits / self.soft_cap)
        newest = positions[length - len(query) :, None]
        hidden = positions > newest
        if self.sliding:
            hidden |= positions <= newest - self.sliding
        weights = logits.masked_fill(hidden, -torch.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, values)


SHAPES = {
    "float32": ({}, 2e-5),
    "bfloat16": ({"dtype": "bfloat16"}, 2**-8),
    "blocks of 128": ({"block_tokens": 128}, 2e-5),
    "sliding windows": ({"sliding": 300}, 2e-5),
    "capped logits": ({"soft_cap": 5.0}, 2e-5),
    "beside a connector": ({"is_verified": True}, 2e-5),
}


@pytest.fixture(autouse=True)
def one_thread():
    """So little work takes longer if threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", SHAPES)
def test_attention_is_that_of_all_tokens(name):
    options, most = SHAPES[name]
    engine = Engine(**options)
    assert engine.step([300, 410, 492], [300, 410, 492]) == (0, 0)  # Nothing is stored before it.
    attended, error = engine.step([301, 411, 493], [1, 1, 1])
    assert (attended, error < most) == (3 * LAYERS, True)
    # Chunks, and lengths where pages close.
    attended, error = engine.step([390, 412, 582], [89, 1, 89])
    assert (attended, error < most) == ((89 + 1 + 89) * LAYERS, True)
    # The pool shows the first and the last as much of a window, the other more.
    attended, error = engine.step([391, 413, 583], [1, 1, 1])
    assert (attended, error < most) == (3 * LAYERS, True)
    assert engine.pages.counts.stored_tokens > 0


def test_the_newest_tokens_are_attended_to_where_they_lie(monkeypatch):
    engine = Engine(soft_cap=5.0)
    engine.step([300, 410], [300, 410])

    def gathers(*_: object) -> None:
        raise AssertionError("rows were read for torch")

    monkeypatch.setattr("nearkv.vllm.near_tokens.attend_here", gathers)
    attended, error = engine.step([301, 413], [1, 3])
    assert (attended, error < 2e-5) == (4 * LAYERS, True)
    with pytest.raises(AssertionError, match="for torch"):  # A prompt's chunk.
        engine.step([330, 414], [29, 1])


def test_pages_with_codes_wait_for_the_queries_that_tell_their_gains():
    engine = Engine(codes=True)
    pool, many = engine.pages.pool, 280
    engine.step([200], [200])
    assert (pool.usage().pages, pool.gains(0, 0)) == (0, None)
    engine.step([many], [many - 200])
    assert pool.usage().pages == LAYERS * KV_HEADS * ((many - WINDOW_TOKENS) // 64)
    for layer, head in np.ndindex(LAYERS, KV_HEADS):
        assert pool.gains(layer, head).any()
    attended, error = engine.step([many + 1], [1])
    assert (attended, error < 2e-5) == (LAYERS, True)


@pytest.mark.parametrize("damaged, answered", [(0, 1), (2, 64 + 1)])
def test_what_is_damaged_is_nobodys_and_others_go_on(damaged, answered):
    engine = Engine(shared_tokens=192, forms=RAW_FORMS)
    engine.step([256, 192, 300], [256, 192, 300])
    engine.damage_first_page(damaged)
    # A prompt and one that decodes begin alike; the third, which decodes, has pages of its own.
    attended, error = engine.step([256, 257, 301], [64, 1, 1])
    assert (attended, error < 2e-5) == (answered * LAYERS, True)


def test_what_a_connector_wrote_is_found_out():
    engine = Engine(is_verified=True)
    engine.step([300, 410], [300, 410])
    engine.overwrite()
    assert engine.step([301, 411], [1, 1]) == (0, 0)  # Left to vLLM's own attention.
    assert engine.step([302, 412], [1, 1]) == (0, 0)  # And stored anew after it.
    attended, error = engine.step([303, 413], [1, 1])
    assert (attended, error < 2e-5) == (2 * LAYERS, True)


def test_it_would_be_wrong_unseen():
    engine = Engine(is_verified=False)
    engine.step([300, 410], [300, 410])
    engine.overwrite()
    _, error = engine.step([301, 411], [1, 1])
    assert error > 1e-2
