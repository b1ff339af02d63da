"""A cache layer and its attention function, call by call, against attention in float64."""

import copy
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv import near  # noqa: E402
from nearkv.core import AttendMode, Device, Dtype, Error, Pool  # noqa: E402
from nearkv.transformers import FarAttention, NearKVCache  # noqa: E402
from nearkv.transformers.attention import nearkv_attention_forward  # noqa: E402

pytestmark = pytest.mark.quick

KV_HEADS, DIM, WINDOW = 2, 32, 64
# fp16 rounds O to 2^-11; a token too many or too few moves it further.
TOLERANCE = 1.25e-3
DTYPE = torch.float16


class Module(torch.nn.Module):
    """What the attention function asks of an attention module."""

    def __init__(self, group: int) -> None:
        super().__init__()
        self.num_key_value_groups = group
        self.is_causal = True


@dataclass
class Conversation:
    """Random tokens through a cache, every output checked against all tokens in float64."""

    cache: NearKVCache
    group: int = 2
    sliding: int | None = None
    pads: tuple[int, ...] = (0,)
    soft_cap: float | None = None
    keys: torch.Tensor = field(init=False)
    values: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        torch.manual_seed(len(self.pads) * 100 + self.group)
        self.keys = self.values = torch.zeros(len(self.pads), KV_HEADS, 0, DIM, dtype=DTYPE)

    @property
    def length(self) -> int:
        return self.keys.shape[2]

    def random(self, heads: int, tokens: int) -> torch.Tensor:
        return torch.randn(len(self.keys), heads, tokens, DIM).mul(1.5).to(DTYPE)

    def mask(self, tokens: int) -> torch.Tensor:
        at = torch.arange(self.length - tokens, self.length)[:, None]
        columns = torch.arange(self.length)
        seen = columns <= at
        if self.sliding:
            seen = seen & (columns > at - self.sliding)
        return seen & (columns >= torch.tensor(self.pads)[:, None, None, None])

    def add(self, tokens: int) -> None:
        """Adds tokens and checks their attention."""
        query = self.random(KV_HEADS * self.group, tokens)
        keys, values = self.random(KV_HEADS, tokens), self.random(KV_HEADS, tokens)
        self.keys = torch.cat([self.keys, keys], 2)
        self.values = torch.cat([self.values, values], 2)
        mask = self.mask(tokens)
        here = self.cache.update(keys, values, 0)
        plain = (self.sliding is None and not any(self.pads)) and (
            tokens == 1 or tokens == self.length
        )
        output, _ = nearkv_attention_forward(
            Module(self.group),
            query,
            *here,
            None if plain else mask,
            scaling=DIM**-0.5,
            softcap=self.soft_cap,
        )
        exact = self.exact(query, mask)
        real = torch.stack([row.diagonal(self.length - tokens)[:tokens] for row in mask[:, 0]])
        assert output.dtype == DTYPE
        off = (output.double() - exact) / exact.abs().clamp(min=1)
        off = off.transpose(1, 2).abs().amax((1, 3))
        assert off[real].max() < TOLERANCE, f"{self.length} tokens"
        assert self.cache.get_seq_length() == self.length

    def exact(self, query: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        keys = self.keys.double().repeat_interleave(self.group, 1)
        values = self.values.double().repeat_interleave(self.group, 1)
        logits = query.double() @ keys.transpose(2, 3) * DIM**-0.5
        if self.soft_cap:
            logits = self.soft_cap * torch.tanh(logits / self.soft_cap)
        weights = logits.masked_fill(~mask, -torch.inf).softmax(-1)
        return (weights @ values).transpose(1, 2)

    def stored(self) -> int:
        return sum(self.cache.layers[0].stored)


@pytest.fixture
def pool() -> Pool:
    return new_pool()


def new_pool(*, codes: bool = False) -> Pool:
    shape = {"layers": 1, "kv_heads": KV_HEADS, "head_dim": DIM, "codes": codes}
    return Pool.create(Device("cpu:?memory=32MiB"), dtype=Dtype.FP16, **shape)


@pytest.fixture
def cache(pool: Pool) -> NearKVCache:
    return NearKVCache(pool, window_tokens=WINDOW)


@pytest.mark.parametrize("group", [1, 2, 4, 8])
@pytest.mark.parametrize("sliding", [None, 20, 100, 300])
@pytest.mark.parametrize("pads", [(0,), (0, 0), (3, 0, 150)])
def test_every_step_is_exact(cache: NearKVCache, group: int, sliding, pads) -> None:
    talk = Conversation(cache, group, sliding, pads)
    for tokens in (333, 1, 1, 5, 130, *[9] * 8, 33, 1):
        talk.add(tokens)
        for count, first in zip(cache.layers[0].stored, pads, strict=True):
            assert WINDOW <= talk.length - first - count < WINDOW + core.PAGE_TOKENS
    assert talk.stored() > 400
    assert cache.layers[0].keys.shape[2] < WINDOW + core.PAGE_TOKENS


@pytest.mark.parametrize("pads", [(33,), (5, 40)])
def test_a_short_prompt_may_begin_with_padding_in_every_row(cache: NearKVCache, pads) -> None:
    talk = Conversation(cache, pads=pads)
    for tokens in (50, 1, 1, 5):
        talk.add(tokens)
    assert not talk.stored()
    talk.add(200)
    talk.add(1)
    assert talk.stored()


def test_steps_by_the_kernels_of_a_gpu_are_exact(cache: NearKVCache, monkeypatch) -> None:
    kernels = pytest.importorskip("nearkv.cuda")
    try:
        kernels.gpu_of(torch.device("cpu"))
    except core.Error as error:
        pytest.skip(f"no emulated kernels: {error}")
    taken: list[str] = []

    def counted(name: str, operator, *given):
        taken.append(name)
        return operator(*given)

    for name in ("attend_window", "merge_parts"):
        monkeypatch.setattr(kernels, name, partial(counted, name, getattr(kernels, name)))
    monkeypatch.setattr(near, "_has_kernels", lambda device: True)
    talk = Conversation(cache)
    for tokens in (200, 1, 1):
        talk.add(tokens)
    assert talk.stored() and taken.count("attend_window") == 2
    assert taken.count("merge_parts") >= 2


@pytest.mark.parametrize("pads", [(0,), (70, 0)])
def test_soft_cap(cache: NearKVCache, pads) -> None:
    talk = Conversation(cache, pads=pads, soft_cap=1.5)
    for tokens in (300, 1, 3):
        talk.add(tokens)


def test_more_query_rows_than_one_command_takes(cache: NearKVCache) -> None:
    talk = Conversation(cache, group=8)
    for tokens in (200, 40, 1):
        talk.add(tokens)


@pytest.mark.parametrize("removed", [1, 30, 64, 100, 250, 299, 300])
@pytest.mark.parametrize("pads", [(0,), (0, 5)])
def test_crop_takes_back_what_it_needs(cache: NearKVCache, removed: int, pads) -> None:
    talk = Conversation(cache, pads=pads)
    talk.add(300)
    cache.crop(-removed)
    talk.keys = talk.keys[:, :, : 300 - removed]
    talk.values = talk.values[:, :, : 300 - removed]
    for tokens in (3, 1, 120, 1):
        talk.add(tokens)


def test_crop_takes_no_positive_count(cache: NearKVCache) -> None:
    with pytest.raises(ValueError, match="positive"):
        cache.crop(5)
    cache.crop(0)


def test_rows_can_be_reordered_and_repeated(cache: NearKVCache) -> None:
    talk = Conversation(cache, pads=(0, 9))
    for tokens in (300, 1):
        talk.add(tokens)
    pages = cache.pool.usage().pages
    for rows in ([1, 1], [0, 1], [1, 0]):
        cache.reorder_cache(torch.tensor(rows))
        talk.keys, talk.values = talk.keys[rows], talk.values[rows]
        talk.pads = tuple(talk.pads[row] for row in rows)
        talk.add(1)
        assert cache.pool.usage().pages <= pages
    cache.batch_repeat_interleave(2)
    rows = [0, 0, 1, 1]
    talk.keys, talk.values = talk.keys[rows], talk.values[rows]
    talk.pads = tuple(talk.pads[row] for row in rows)
    for _ in range(70):
        talk.add(1)


def test_copies_go_on_alone_and_share_pages(cache: NearKVCache) -> None:
    talk = Conversation(cache)
    talk.add(300)
    pages = cache.pool.usage().pages
    other = copy.copy(talk)
    other.cache = copy.deepcopy(cache)
    assert cache.pool.usage().pages == pages
    for _ in range(70):
        talk.add(1)
        other.add(1)
    assert not torch.equal(talk.keys, other.keys)


def full_pool(sequences: int) -> Pool:
    return Pool.create(
        Device("cpu:?memory=32MiB"),
        layers=1,
        kv_heads=KV_HEADS,
        head_dim=DIM,
        dtype=Dtype.FP16,
        max_sequences=sequences,
    )


def test_what_a_full_pool_refuses_changes_nothing() -> None:
    pool = full_pool(sequences=3)
    with NearKVCache(pool, window_tokens=WINDOW) as cache:
        talk = Conversation(cache, pads=(0, 9))
        talk.add(300)
        pages = pool.usage().pages
        for refused in (
            lambda: copy.deepcopy(cache),
            lambda: cache.crop(-200),
            lambda: cache.batch_repeat_interleave(2),
        ):
            with pytest.raises(Error):
                refused()
            assert (pool.usage().sequences, pool.usage().pages) == (2, pages)
            talk.add(1)
    assert pool.usage().sequences == 0


def test_a_batch_that_a_pool_has_no_sequences_for_leaves_none() -> None:
    pool = full_pool(sequences=2)
    with NearKVCache(pool, window_tokens=WINDOW) as cache, pytest.raises(Error):
        Conversation(cache, pads=(0, 0, 0)).add(300)
    assert pool.usage().sequences == 0


def test_reset_and_the_end_give_pages_back(pool: Pool) -> None:
    cache = NearKVCache(pool, window_tokens=WINDOW)
    Conversation(cache).add(300)
    assert pool.usage().pages > 0
    cache.reset()
    assert (pool.usage().pages, pool.usage().sequences) == (0, 0)
    Conversation(cache, pads=(0, 0, 0)).add(300)
    assert pool.usage().sequences == 3
    del cache
    assert (pool.usage().pages, pool.usage().sequences) == (0, 0)


@pytest.mark.parametrize("mode", [AttendMode.TAIL, AttendMode.BOUNDED])
def test_modes_read_less(mode: AttendMode) -> None:
    pool, read = new_pool(codes=True), {}
    for far in (FarAttention(), FarAttention(mode=mode, top_k=16, error=0.5)):
        torch.manual_seed(1)
        cache = NearKVCache(pool, window_tokens=WINDOW, far=far)
        keys = torch.randn(1, KV_HEADS, 4096, DIM).to(DTYPE)
        query = torch.randn(1, KV_HEADS, 4096, DIM).to(DTYPE)
        for tokens in (slice(0, 4095), slice(4095, 4096)):
            pool.reset_stats()
            here = cache.update(keys[:, :, tokens], keys[:, :, tokens] + 1, 0)
            nearkv_attention_forward(Module(1), query[:, :, tokens], *here, None)
        read[far.mode] = pool.stats().near_bytes
        cache.close()
    assert 0 < read[mode] < 0.7 * read[AttendMode.DENSE]


def test_gains_come_from_all_queries_before_the_first_page() -> None:
    pool = new_pool(codes=True)
    cache = NearKVCache(pool, window_tokens=WINDOW, far=FarAttention(mode=AttendMode.BOUNDED))
    torch.manual_seed(1)
    size = torch.linspace(0, 4, DIM).exp2()
    keys = torch.randn(1, KV_HEADS, 192, DIM)
    queries = torch.randn(1, KV_HEADS, 192, DIM) * size
    for tokens in (slice(0, 100), slice(100, 127), slice(127, 192)):
        assert pool.gains(0, 0) is None
        some = keys[:, :, tokens].to(DTYPE)
        here = cache.update(some, some, 0)
        nearkv_attention_forward(Module(1), queries[:, :, tokens].to(DTYPE), *here, None)
    # Four octaves of queries over keys that are all alike: half as many of gains.
    gains = torch.from_numpy(pool.gains(0, 1)).int()
    assert 22 <= gains[-8:].float().mean() - gains[:8].float().mean() <= 28


def test_a_mode_that_reads_by_codes_needs_a_pool_that_has_them(pool: Pool) -> None:
    bounded = FarAttention(mode=AttendMode.BOUNDED)
    with pytest.raises(ValueError, match="codes=True"):
        NearKVCache(pool, far=bounded)
    with pytest.raises(ValueError, match="codes=True"):
        NearKVCache(pool).fork(bounded)


def attend(cache: NearKVCache, tokens: int, mask=None, **options) -> None:
    rows = torch.randn(1, KV_HEADS, tokens, DIM).to(DTYPE)
    here = cache.update(rows, rows, 0)
    nearkv_attention_forward(Module(1), rows, *here, mask, **options)


def test_masks_that_it_does_not_know_are_refused(cache: NearKVCache) -> None:
    attend(cache, 300)
    hole = torch.ones(1, 1, 1, 301, dtype=torch.bool)
    hole[..., 100] = False
    with pytest.raises(ValueError, match="hides tokens in the middle"):
        attend(cache, 1, hole)
    cache.reset()
    attend(cache, 300)
    with pytest.raises(ValueError, match="bool"):
        attend(cache, 1, torch.zeros(1, 1, 1, 301))


def test_padding_on_the_right_is_refused(cache: NearKVCache) -> None:
    mask = torch.ones(300, 300, dtype=torch.bool).tril()
    mask[:, 290:] = False
    with pytest.raises(ValueError, match="padding_side"):
        attend(cache, 300, mask[None, None])


def test_what_it_cannot_do_is_refused(cache: NearKVCache, pool: Pool) -> None:
    attend(cache, 300)
    with pytest.raises(ValueError, match="s_aux"):
        attend(cache, 1, s_aux=torch.zeros(2))
    other = NearKVCache(pool)
    rows = torch.randn(1, KV_HEADS, 10, DIM)
    with pytest.raises(ValueError, match="rounded=True"):
        other.update(rows, rows, 0)
    narrow = rows[..., :16].to(DTYPE)
    with pytest.raises(ValueError, match="make_pool"):
        other.update(narrow, narrow, 0)
    query = rows.to(DTYPE).requires_grad_()
    here = other.update(rows.to(DTYPE), rows.to(DTYPE), 0)
    with pytest.raises(RuntimeError, match="no_grad"):
        nearkv_attention_forward(Module(1), query, *here, None)
