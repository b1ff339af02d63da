"""llama.cpp, whose decode steps are timed.

Runs in llama.cpp's environment. Its argument: {"model": FILE, "threads"}; weights stay in the bits
that the GGUF file has them in. Orders:
`fill {"requests", "tokens", "steps"}` computes a prompt, copies its K and V for so many requests
with room for so many steps, and forgets others;
`turn {"count"}` decodes so many steps, and answers {"seconds": of each step but the first}.
"""

import ctypes
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.engines.orders import serve
from bench.engines.shapes import DOCUMENT, slice_of
from bench.engines.steps import seconds_of_turn
from bench.quiet import as_a_program_of_its_own

as_a_program_of_its_own(json.loads(sys.argv[1])["threads"])

import llama_cpp  # noqa: E402
import numpy as np  # noqa: E402

_CHUNK_TOKENS = 2048


class LlamaCpp:
    """Requests that decode together, each with a cache of its own."""

    def __init__(self, model: str, threads: int) -> None:
        self._threads = threads
        self._model = llama_cpp.llama_model_load_from_file(
            model.encode(), llama_cpp.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {model}")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._text = self._tokens_of(DOCUMENT.read_bytes())
        self._context: Any = None

    def fill(self, order: dict[str, int]) -> dict[str, Any]:
        """Computes a prompt for all requests."""
        self.close()
        requests, tokens = order["requests"], order["tokens"]
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = requests * (tokens + order["steps"] + 1)
        options.n_batch = _CHUNK_TOKENS
        options.n_seq_max = requests
        options.n_threads = options.n_threads_batch = self._threads
        options.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        options.kv_unified = False
        self._context = llama_cpp.llama_init_from_model(self._model, options)
        if not self._context:
            raise RuntimeError(f"llama.cpp has no room for {requests} x {tokens} tokens")
        prompt = slice_of(self._text, 0, tokens)
        for first in range(0, tokens, _CHUNK_TOKENS):
            chunk = prompt[first : first + _CHUNK_TOKENS]
            self._decode(chunk, range(first, first + len(chunk)), [0] * len(chunk))
        memory = llama_cpp.llama_get_memory(self._context)
        for request in range(1, requests):
            llama_cpp.llama_memory_seq_cp(memory, 0, request, -1, -1)
        self._next = self._best(-1) * requests
        self._length = tokens
        return {}

    def turn(self, order: dict[str, int]) -> dict[str, Any]:
        """Seconds of steps."""
        return {"seconds": seconds_of_turn(order["count"], self._step)}

    def close(self) -> None:
        """Forgets all requests."""
        if self._context:
            llama_cpp.llama_free(self._context)
            self._context = None

    def _step(self) -> None:
        requests = range(len(self._next))
        self._decode(self._next, [self._length] * len(requests), requests)
        self._next = self._best(*requests)
        self._length += 1

    def _decode(
        self, tokens: Sequence[int], positions: Sequence[int], requests: Sequence[int]
    ) -> None:
        """Computes a batch; logits are kept of the last token of each request."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, (token, position, request) in enumerate(
            zip(tokens, positions, requests, strict=True)
        ):
            batch.token[i], batch.pos[i] = token, position
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, request
            batch.logits[i] = i + 1 == len(tokens) or requests[i + 1] != request
        status = llama_cpp.llama_decode(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_decode: {status}")

    def _best(self, *places: int) -> list[int]:
        """The likeliest next tokens, by places in the last batch."""
        size = llama_cpp.llama_vocab_n_tokens(self._vocab)
        logits = (llama_cpp.llama_get_logits_ith(self._context, place) for place in places)
        return [int(np.ctypeslib.as_array(each, (size,)).argmax()) for each in logits]

    def _tokens_of(self, text: bytes) -> list[int]:
        tokens = (ctypes.c_int32 * len(text))()
        count = llama_cpp.llama_tokenize(
            self._vocab, text, len(text), tokens, len(text), False, False
        )
        return tokens[:count]


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    serve(lambda: LlamaCpp(**made), {"fill": LlamaCpp.fill, "turn": LlamaCpp.turn})
