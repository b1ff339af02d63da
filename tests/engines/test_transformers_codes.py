"""A real model that reads a pool by codes: as much as an error asks for, and the same answer."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from nearkv.core import AttendMode, Pool  # noqa: E402
from nearkv.demo.question import QUESTION, built_in_document  # noqa: E402
from nearkv.real_models import ModelError, fetch_model  # noqa: E402
from nearkv.transformers import ATTENTION, FarAttention, NearKVCache, make_pool  # noqa: E402

pytestmark = pytest.mark.timeout(1200)

DOCUMENT_TOKENS, ANSWER_TOKENS = 4400, 12
BOUNDED = FarAttention(mode=AttendMode.BOUNDED, error=0.05)


class RealModel:
    """SmolLM2 after a document and a question about it, its K and V in a pool with codes."""

    def __init__(self) -> None:
        folder = fetch_model("smollm2")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.model.set_attn_implementation(ATTENTION)
        document = tokenizer(built_in_document().read_text())["input_ids"][:DOCUMENT_TOKENS]
        asked = tokenizer(f"\n\nQuestion: {QUESTION}\nAnswer:")["input_ids"]
        self.pool = make_pool(self.model.config, "cpu:?memory=512MiB", codes=True)
        self.cache = NearKVCache(self.pool, config=self.model.config, rounded=True)
        self.first = self.read(self.cache, document + asked)

    def read(self, cache: NearKVCache, tokens: list[int]) -> int:
        """The likeliest token after these."""
        with torch.no_grad():
            output = self.model(torch.tensor([tokens]), past_key_values=cache, logits_to_keep=1)
        return int(output.logits[0, -1].argmax())

    def answer(self, far: FarAttention) -> tuple[list[int], Any]:
        """Greedy tokens, and what the pool did for them."""
        self.pool.reset_stats()
        with self.cache.fork(far) as cache:
            tokens = [self.first]
            while len(tokens) < ANSWER_TOKENS:
                tokens.append(self.read(cache, tokens[-1:]))
        return tokens, self.pool.stats()


@pytest.fixture(scope="module")
def real() -> RealModel:
    try:
        return RealModel()
    except ModelError as error:
        pytest.skip(str(error))


def test_its_answer_within_an_error_is_the_exact_one_from_a_part_of_the_bytes(
    real: RealModel,
) -> None:
    exact, of_exact = real.answer(FarAttention())
    near, of_near = real.answer(BOUNDED)
    share = of_near.near_bytes / of_exact.near_bytes
    print(f"{share:.3f} of the bytes; {of_near.dense_fallbacks} commands read all")
    assert near == exact
    assert of_near.commands == of_exact.commands
    # Where a head looks at little, nearly all of a read is the scan of every page.
    assert share < 0.5, f"{share:.3f} of the bytes"


def test_its_gains_were_learned_from_the_prompt(real: RealModel) -> None:
    pool: Pool = real.pool
    for layer in range(pool.layers):
        for head in range(pool.kv_heads):
            assert pool.gains(layer, head).any()
