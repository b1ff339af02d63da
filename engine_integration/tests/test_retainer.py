"""A sequence within a budget: what falls out is compressed, and a query calls it back."""

import random
from pathlib import Path

import pytest
import torch

pytest.importorskip("nearkv.core", exc_type=ImportError)

from nearkv.core import PAGE_TOKENS, Codec, ColdPages, Device, Error, Pool, Status
from nearkv.demo.prompt import draw_needle, read_document
from nearkv.demo.runs import load_model
from nearkv.retainer import Moved, Retainer, Retention
from nearkv.retention import retention_budgets, retention_policies
from nearkv.transformers import ATTENTION, NearKVCache, make_pool

LAYERS, HEADS, DIM, PAGES = 2, 2, 32, 8
TOKENS = PAGES * PAGE_TOKENS
SCALE = 0.5
MODELS = Path(__file__).parents[1] / "models"


def rows(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(HEADS, TOKENS, DIM, generator=generator).bfloat16()


KEYS, VALUES = (
    [rows(layer) for layer in range(LAYERS)],
    [rows(9 + layer) for layer in range(LAYERS)],
)


def new_pool(memory: str = "64MiB") -> Pool:
    pool = Pool.create(Device(f"cpu:?memory={memory}"), layers=LAYERS, kv_heads=HEADS, head_dim=DIM)
    pool.create_sequence(1)
    return pool


def filled(retention: Retention, pages: int = PAGES, memory: str = "64MiB") -> Retainer:
    retainer = Retainer(new_pool(memory), 1, retention)
    for layer in range(LAYERS):
        part = slice(0, pages * PAGE_TOKENS)
        retainer.pool.append(1, layer, KEYS[layer][:, part], VALUES[layer][:, part])
        retainer.append(layer, KEYS[layer][:, part])
    return retainer


def exact_pages(retainer: Retainer, layer: int = 0, head: int = 0) -> list[int]:
    codecs = retainer.pool.codecs(retainer.sequence, layer, head)
    return [page for page, codec in enumerate(codecs) if codec == Codec.NONE]


def ask_for(retainer: Retainer, token: int, layer: int = 0) -> None:
    """A query that each head's key of a token answers best."""
    retainer.ask(layer, KEYS[layer][:, token : token + 1], scale=SCALE)


@pytest.mark.parametrize("rule", retention_budgets())
@pytest.mark.parametrize("policy", [name for name in retention_policies() if "value" not in name])
def test_every_policy_and_rule_keeps_to_the_budget(policy, rule):
    budget = 3 * PAGE_TOKENS
    retainer = filled(Retention(budget_tokens=budget, policy=policy, rule=rule))
    before = retainer.pool.usage()
    for token in (100, 200, 300):
        for layer in range(LAYERS):
            ask_for(retainer, token, layer)
    for _ in range(2):  # Shares depend on all layers: the second round has seen them.
        for layer in range(LAYERS):
            retainer.settle(layer)
    kept = [retainer.exact_tokens(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    assert sum(kept) <= budget * LAYERS * HEADS
    assert retainer.pool.usage().page_bytes < before.page_bytes
    assert retainer.pool.usage().pages == before.pages, "a page was lost"
    assert all(retainer.settle(layer) == Moved() for layer in range(LAYERS)), "it changed its mind"


def test_a_query_calls_back_what_was_compressed_and_attention_sees_it_again():
    retainer = filled(Retention(budget_tokens=2 * PAGE_TOKENS))
    asked = 5 * PAGE_TOKENS + 7
    assert retainer.settle(0).cooled == HEADS * (PAGES - 2)
    assert 5 not in exact_pages(retainer)
    ask_for(retainer, asked)
    assert retainer.settle(0).warmed == HEADS
    assert exact_pages(retainer) == [0, 5]
    query = KEYS[0][:, asked : asked + 1].contiguous()
    output, _ = retainer.pool.attend(1, 0, query, scale=1.0, cold=ColdPages.SKIP)
    assert torch.allclose(torch.from_numpy(output[:, 0]), VALUES[0][:, asked].float(), atol=0.02)


def test_a_lossless_codec_gives_back_every_bit_and_a_lossy_one_says_what_it_costs():
    exact = filled(Retention(budget_tokens=0))
    lossy = filled(Retention(budget_tokens=0, cold=Codec.INT4))
    before, _ = exact.pool.read(1, 0, 0, 0, TOKENS)
    for retainer in (exact, lossy):
        retainer.settle(0)
        assert exact_pages(retainer) == []
        retainer.pool.transcode(1, Codec.NONE)
    assert (exact.pool.read(1, 0, 0, 0, TOKENS)[0] == before).all()
    assert (lossy.pool.read(1, 0, 0, 0, TOKENS)[0] != before).any()


@pytest.mark.parametrize(
    ("budget", "pages"),
    [(0, []), (1, []), (PAGE_TOKENS, [0]), (10 * TOKENS, list(range(PAGES)))],
)
def test_budgets_of_nothing_one_token_one_page_and_all(budget, pages):
    retainer = filled(Retention(budget_tokens=budget))
    retainer.settle(0)
    assert exact_pages(retainer) == pages


def test_pinned_pages_stay_even_if_that_is_all_of_them():
    retainer = filled(Retention(budget_tokens=PAGE_TOKENS))
    retainer.pin([70, 400])
    retainer.settle(0)
    assert {1, 6} <= set(exact_pages(retainer))
    retainer.pin(range(TOKENS))
    assert retainer.settle(0).warmed > 0
    assert exact_pages(retainer) == list(range(PAGES))


def test_what_a_fork_shares_is_not_cooled_and_the_fork_goes_on_by_itself():
    retainer = filled(Retention(budget_tokens=2 * PAGE_TOKENS))
    ask_for(retainer, 3 * PAGE_TOKENS)
    retainer.pool.fork(1, 2, 4 * PAGE_TOKENS)
    child = retainer.fork(2, 4 * PAGE_TOKENS)
    retainer.settle(0)
    assert exact_pages(retainer) == [0, 1, 2, 3], "the fork holds these"
    assert child.settle(0) == Moved()
    retainer.pool.drop(1)
    assert child.settle(0).cooled == 2 * HEADS
    assert exact_pages(child) == [0, 3]


def test_a_restart_goes_on_and_anything_else_is_refused():
    retention = Retention(budget_tokens=2 * PAGE_TOKENS)
    retainer = filled(retention)
    ask_for(retainer, 4 * PAGE_TOKENS)
    saved = retainer.save()
    again = Retainer(retainer.pool, 1, retention)
    again.restore(saved)
    again.settle(0)
    assert exact_pages(again) == [0, 4]
    assert again.save() == saved
    for wrong in (b"", saved[:-1], saved + b"x", saved[:40] + b"?" + saved[41:]):
        with pytest.raises((ValueError, Error)):
            again.restore(wrong)
    assert again.save() == saved


def test_a_pool_too_small_to_warm_into_leaves_pages_cold_and_says_so():
    retainer = filled(Retention(budget_tokens=TOKENS), memory="8MiB")
    retainer.pool.transcode(1, Codec.PLANES_ZSTD)
    pool, sequence = retainer.pool, 1
    for pages in (PAGES, 1):  # Fill it up, to the last page.
        part = slice(0, pages * PAGE_TOKENS)
        with pytest.raises(Error) as failure:
            while True:
                sequence += 1
                pool.create_sequence(sequence)
                for layer in range(LAYERS):
                    pool.append(sequence, layer, KEYS[layer][:, part], VALUES[layer][:, part])
        assert failure.value.status == Status.POOL_FULL
    moved = retainer.settle(0)
    assert moved.refused > 0
    assert moved.warmed + moved.refused == HEADS * PAGES
    for number in range(2, sequence + 1):
        pool.drop(number)
    assert retainer.settle(0).refused == 0
    assert exact_pages(retainer) == list(range(PAGES))


@pytest.mark.parametrize("seed", range(4))
def test_asking_settling_forking_and_restoring_in_any_order_keep_budget_pins_and_pages(seed):
    """Beside a pool in which nothing is ever compressed, whose searches must find the same."""
    rng = random.Random(seed)
    budget = 2 * PAGE_TOKENS
    retainer, plain = (
        filled(Retention(budget_tokens=budget)),
        filled(Retention(budget_tokens=budget)),
    )
    retainers = {1: retainer}
    for step in range(40):
        number, one = rng.choice(list(retainers.items()))
        one.pin({rng.randrange(PAGE_TOKENS)} if rng.random() < 0.3 else ())
        match rng.randrange(4):
            case 0:
                ask_for(one, rng.randrange(2 * PAGE_TOKENS))
            case 1 if len(retainers) < 4:
                child, tokens = 100 + step, PAGE_TOKENS * rng.randint(2, 4)
                if one.pool.tokens(number, 0) >= tokens:
                    for pool in (one.pool, plain.pool):
                        pool.fork(number, child, tokens)
                    retainers[child] = one.fork(child, tokens)
            case 2:
                again = Retainer(one.pool, number, one.retention)
                again.restore(one.save())
                retainers[number] = again
            case _:
                one.settle(0)
                held = len(retainers) > 1  # What forks share may stay beyond the budget.
                assert held or one.exact_tokens(0, 0) <= budget
                assert not one._pinned or 0 in exact_pages(one)
        query, options = KEYS[0][0, :1], {"scale": SCALE, "cold": ColdPages.DECODE}
        found = [pool.top_k(number, 0, 0, query, 9, **options) for pool in (one.pool, plain.pool)]
        assert all((a == b).all() for a, b in zip(*found, strict=True))
    assert retainer.pool.usage().pages == plain.pool.usage().pages


def test_forks_past_what_there_is_are_refused_and_leave_nothing_behind():
    retainer = filled(Retention(budget_tokens=PAGE_TOKENS), pages=2)
    with pytest.raises(ValueError, match="parent's tokens"):
        retainer.fork(2, 3 * PAGE_TOKENS)
    with pytest.raises(Error) as raised:
        for number in range(2, 10**6):
            retainer.pool.fork(1, number, PAGE_TOKENS)
    assert raised.value.status == Status.POOL_FULL
    forks = retainer.pool.usage().sequences
    assert retainer.settle(0).cooled == HEADS, "the page that no fork shares"
    assert retainer.pool.usage().sequences == forks


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: Retention(budget_tokens=-1), "budget_tokens"),
        (lambda: Retention(budget_tokens=1, recall_tokens=0), "recall_tokens"),
        (lambda: Retention(budget_tokens=1, cold=Codec.NONE), "PLANES_ZSTD"),
        (lambda: Retention(budget_tokens=1, policy="h20"), "heavy_hitters"),
        (
            lambda: NearKVCache(new_pool(), max_tokens=64, retention=Retention(budget_tokens=1)),
            "max_tokens",
        ),
    ],
)
def test_what_is_wrong_is_named(wrong, text):
    with pytest.raises((ValueError, Error), match=text):
        wrong()


class Recall:
    """The shipped model reads a text with a needle early in it; then it is asked."""

    def __init__(self) -> None:
        self.model, self.tokenizer = load_model(MODELS / "recall_3m", "float32")
        text = read_document(MODELS / "documents" / "postgresql-high-availability.txt")
        self.needle = draw_needle(text, 3)
        self.prompt = self.encode(f"{text[:1500]}\n{self.needle.line}\n{text[1500:6000]}\n")
        self.model.set_attn_implementation(ATTENTION)

    def encode(self, text: str) -> torch.Tensor:
        return self.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]

    def cache(self, retention: Retention | None) -> NearKVCache:
        pool = make_pool(self.model.config, "cpu:?memory=128MiB", dtype=torch.bfloat16)
        return NearKVCache(pool, retention=retention, rounded=True)

    @torch.no_grad()
    def answer(self, cache: NearKVCache) -> str:
        """Greedy, a token at a time."""
        self.model(self.prompt, past_key_values=cache, logits_to_keep=1)
        feed, told = self.encode(f"\n{self.needle.question}"), []
        for _ in range(len(self.needle.value) + 1):
            logits = self.model(feed, past_key_values=cache, logits_to_keep=1).logits
            feed = logits[:, -1].argmax(-1, keepdim=True)
            told.append(int(feed))
        return self.tokenizer.decode(told)


@pytest.fixture(scope="module")
def recall() -> Recall:
    return Recall()


def test_under_transformers_a_budget_of_all_tokens_changes_nothing(recall):
    with recall.cache(None) as plain, recall.cache(Retention(budget_tokens=1 << 20)) as kept:
        wanted, answer = recall.answer(plain), recall.answer(kept)
        assert wanted == answer == f"{recall.needle.value};"
        assert kept.pool.usage().page_bytes == plain.pool.usage().page_bytes


@pytest.mark.parametrize("cold", [Codec.PLANES_ZSTD, Codec.INT4])
def test_under_transformers_a_needle_beyond_the_budget_is_called_back(recall, cold):
    budget = Retention(budget_tokens=2 * PAGE_TOKENS, cold=cold)
    with recall.cache(None) as plain, recall.cache(budget) as kept:
        recall.answer(plain)
        assert recall.answer(kept) == f"{recall.needle.value};"
        assert kept.pool.usage().pages == plain.pool.usage().pages
        assert kept.pool.usage().page_bytes < 0.95 * plain.pool.usage().page_bytes


def test_under_transformers_forks_and_crops_of_cold_pages_work(recall):
    budget = Retention(budget_tokens=PAGE_TOKENS)
    with recall.cache(budget) as cache, torch.no_grad():
        recall.model(recall.prompt, past_key_values=cache, logits_to_keep=1)
        length = cache.get_seq_length()
        with cache.fork() as child:
            recall.model(recall.encode("\nHello"), past_key_values=child, logits_to_keep=1)
            child.crop(-(child.get_seq_length() - length // 2 - 5))
            assert child.get_seq_length() == length // 2 + 5
            recall.model(recall.encode("\nHello"), past_key_values=child, logits_to_keep=1)
        assert cache.get_seq_length() == length
        recall.model(recall.encode("\nHello"), past_key_values=cache, logits_to_keep=1)
    assert cache.pool.usage().pages == 0
