"""Act 1, Ask: one document, one question, plain transformers and NearKV side by side."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from nearkv.core import PAGE_TOKENS, AttendMode
from nearkv.demo import DemoError, observe
from nearkv.demo.question import DocumentPrompt
from nearkv.demo.runs import PLAIN, RoundedCache, Run, is_fast, near_run, token_bytes
from nearkv.far import FarAttention
from nearkv.progress import Progress, progress
from nearkv.transformers import ATTENTION, NearKVCache, learn_gains

_LEARNED_TOKENS = 512  # First ones of the document, which tell what codes have to know.


@dataclass(frozen=True)
class Asked:
    """Everything measured in act 1.

    `runs`: plain, exact and, where the device can, approximate. `ttft_s`: from the prompt to the
    first token of the plain run. `attention`: of each page of the document, as
    observe.peak_attention() has it.
    """

    runs: list[Run]
    ttft_s: float
    moved_tokens: int
    page_bytes: int
    move_token_bytes: float
    errors: observe.Errors | None
    attention: list[float]
    pages: list[str]

    def to_json(self, model: Any, tokenizer: Any, ends: set[int]) -> dict[str, Any]:
        """What the page and the summary are made of."""
        kv_bytes = token_bytes(model.config)
        return {
            "runs": {run.name: self._run_json(run, kv_bytes, tokenizer, ends) for run in self.runs},
            "ttft_cold_s": self.ttft_s,
            "compression_ratio": self.moved_tokens * kv_bytes / self.page_bytes,
            "errors": self.errors and self.errors.to_json(),
            "attention": self.attention,
            "pages": self.pages,
        }

    def _run_json(self, run: Run, kv_bytes: int, tokenizer: Any, ends: set[int]) -> dict[str, Any]:
        tokens = until_end(run.tokens, ends)
        text = tokenizer.decode(
            tokens, clean_up_tokenization_spaces=False, skip_special_tokens=True
        )
        found = {"tokens": tokens, "text": text, "seconds": run.seconds}
        if run.attention == PLAIN:
            return found
        steps = len(run.seconds)
        # Whole pages move, so that a short run may see many tokens move or none. In the long run
        # one moves for each that is decoded, and that is what counts here.
        moved_bytes = run.moved_tokens() * self.move_token_bytes
        return found | {
            "link_bytes": (run.bytes["link"] - moved_bytes) / steps + self.move_token_bytes,
            "near_bytes": run.bytes["near"] / steps,
            "full_bytes": run.stored_mean() * kv_bytes,
        }


def ask(
    model: Any,
    tokenizer: Any,
    base: NearKVCache,
    prompt: DocumentPrompt,
    steps: int,
    ends: set[int],
    device: str,
    error: float,
) -> Asked:
    """Reads the prompt once, gives its K and V to every run, and decodes in turns.

    `base` is empty, and holds the document afterwards. Turns, so that a drift of the machine falls
    on all runs alike. `ends`: tokens that end an answer; `error`: what the approximate mode
    promises. DemoError for a document too short to move a page.
    """
    far = FarAttention(mode=AttendMode.BOUNDED, error=error) if is_fast(device) else None
    plain = Run("plain", PLAIN, RoundedCache())  # Without a config it keeps all tokens.
    document_s = _read_document(model, plain, prompt)
    if far and len(prompt.document) >= _LEARNED_TOKENS:
        model.set_attn_implementation(ATTENTION)
        learn_gains(model, base.pool, prompt.document[:_LEARNED_TOKENS])
        base.pool.reset_stats()
    base.take(plain.cache)
    moved = sum(base.layers[0].stored)
    if moved == 0:
        raise DemoError(
            f"the document has {len(prompt.document)} tokens, and none is old enough to leave the "
            "processor's memory; give a longer one"
        )
    stats, page_bytes = base.pool.stats(), base.pool.usage().page_bytes
    move_bytes = (stats.link_to_device_bytes + stats.link_from_device_bytes) / moved
    runs = [plain, near_run("exact", base.fork(), device)]
    if far:
        runs.append(near_run("approximate", base.fork(far), device))
    names = " and ".join(run.name for run in runs)
    with progress(f"act 1: asking, {names} by turns") as work:
        start_s = time.perf_counter()
        plain.read(model, prompt.question)
        first_s = document_s + time.perf_counter() - start_s
        for run in runs[1:]:
            run.read(model, prompt.question)
        for step in range(steps):
            work.done, work.detail = step / steps, f"token {step + 1} of at most {steps}"
            for run in runs:
                run.step(model)
            if plain.tokens[-1] in ends:
                break
    with progress("act 1: measuring where attention went, and the error"):
        count = len(prompt.document)
        document = [
            (layer.keys[:, :, :count], layer.values[:, :, :count]) for layer in plain.cache.layers
        ]
        queries = observe.observe_queries(model, document, prompt.question, plain.tokens)
        errors = observe.measure_errors(base, queries, far) if far else None
        attention = observe.peak_attention(document, queries)
    pages = [
        tokenizer.decode(prompt.document[at : at + PAGE_TOKENS])
        for at in range(0, len(prompt.document), PAGE_TOKENS)
    ]
    return Asked(runs, first_s, moved, page_bytes, move_bytes, errors, attention, pages)


def until_end(tokens: Sequence[int], ends: set[int]) -> list[int]:
    """An answer without its end and what follows it."""
    end = next((at for at, token in enumerate(tokens) if token in ends), len(tokens))
    return list(tokens[:end])


def _read_document(model: Any, plain: Run, prompt: DocumentPrompt) -> float:
    """Seconds that it took."""
    count = len(prompt.document)
    with progress(f"act 1: reading a document of {count:,} tokens") as work, _layers(model, work):
        start_s = time.perf_counter()
        plain.read(model, prompt.document)
        return time.perf_counter() - start_s


@contextmanager
def _layers(model: Any, work: Progress) -> Iterator[None]:
    """Tells a progress how many of a model's layers are done."""
    layers = next((part for part in model.modules() if isinstance(part, torch.nn.ModuleList)), [])

    def tell(number: int) -> Any:
        def hook(*_: Any) -> None:
            work.done = (number + 1) / len(layers)

        return hook

    handles = [layer.register_forward_hook(tell(number)) for number, layer in enumerate(layers)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
