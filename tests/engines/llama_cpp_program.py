"""Runs in llama.cpp's environment: what it is asked, one after the other in one process.

Its argument: [{"do": a function's name, its arguments}, ..]; its last line: their answers, or
{"error"} for one that raised.
"""

import os
import signal
import time
from functools import partial
from typing import Any

import gguf
import llama_cpp
import numpy as np
from program import call, each, question, tell

from nearkv.llama_cpp import compat
from nearkv.llama_cpp.cache import LlamaNearKVCache
from nearkv.llama_cpp.sequences import SequenceStore
from nearkv.llama_cpp.state import SequenceState


class Llama(llama_cpp.Llama):
    """Counts the tokens that it computes."""

    computed = 0

    def eval(self, tokens: list[int]) -> None:
        self.computed += len(tokens)
        super().eval(tokens)


def new_llama(model: str, options: dict[str, Any]) -> Llama:
    return Llama(
        model,
        **(
            {"n_ctx": 2048, "n_threads": 1, "n_threads_batch": 1, "verbose": False, "seed": 0}
            | options
        ),
    )


def complete(
    model: str,
    prompts: list[list[int]],
    cache: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    kills: int | None = None,
) -> dict:
    """What a new Llama writes after prompts, and how many tokens of each it did not compute.

    `kills`: a process that ends after the first prompt.
    """
    llama = new_llama(model, options or {})
    states = None if cache is None else LlamaNearKVCache(llama, **cache)
    llama.set_cache(states)
    texts, cached = [], []
    for prompt in prompts:
        llama.reset()  # What it has itself is none of the cache's.
        llama.computed = 0
        answer = llama.create_completion(prompt, max_tokens=8, temperature=0)
        texts.append(answer["choices"][0]["text"])
        cached.append(len(prompt) + 7 - llama.computed)  # The last token written is not computed.
        if kills is not None:
            os.kill(kills, signal.SIGKILL)
            kills = None
    if states is not None:
        states.store.close()
    return {"texts": texts, "cached": cached}


def stored(model: str, cache: dict[str, Any]) -> int:
    """Bytes of the objects of a store."""
    states = LlamaNearKVCache(new_llama(model, {}), **cache)
    size = states.cache_size
    states.store.close()
    return size


def converse(model: str, cache: dict[str, Any], prompt: list[int]) -> dict:
    """A prompt, then, by a Llama that has only the cache, all that was computed and more."""
    first = new_llama(model, {})
    states = LlamaNearKVCache(first, **cache)
    first.set_cache(states)
    first.create_completion(prompt, max_tokens=8, temperature=0)
    states.store.close()
    second = new_llama(model, {})
    states = LlamaNearKVCache(second, **cache)
    second.set_cache(states)
    longer = [*first.input_ids[: first.n_tokens].tolist(), *[7] * 30]
    second.create_completion(longer, max_tokens=8, temperature=0)
    states.store.close()
    return {"before": first.n_tokens, "cached": len(longer) + 7 - second.computed}


def mutate_states(model: str) -> dict:
    """What parsing makes of states that are cut, longer, or have a bit flipped in their heads."""
    llama = new_llama(model, {})
    llama.eval(list(range(3, 12)))
    state = np.frombuffer(llama.save_state().llama_state, np.uint8)
    head_bytes = 4 + len("llama")
    kinds = SequenceState.parse(state, head_bytes).layout

    def outcome(data: np.ndarray) -> str:
        try:
            return "same" if SequenceState.parse(data, head_bytes).layout == kinds else "another"
        except Exception as error:
            return type(error).__name__

    cut = {outcome(state[:size]) for size in range(head_bytes, len(state), 7)}
    longer = {outcome(np.append(state, np.full(size, 1, np.uint8))) for size in range(1, 40)}
    other = set()
    for at in range(head_bytes, head_bytes + 160):
        for bit in range(8):
            flipped = state.copy()
            flipped[at] ^= 1 << bit
            other.add(outcome(flipped))
    return {
        "cut": "".join(cut),
        "lengthened": "".join(longer),
        "other": sorted(other - {"UnknownState", "same", "another"}),
    }


class Context:
    """A context of a model with two sequences."""

    def __init__(self, model: Any, params: Any) -> None:
        self.pointer = llama_cpp.llama_init_from_model(model, params)
        self._words = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def decode(self, sequence: int, first: int, tokens: list[int]) -> np.ndarray:
        """Logits after the last."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, first + i, 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = i == len(tokens) - 1
        assert llama_cpp.llama_decode(self.pointer, batch) == 0
        llama_cpp.llama_batch_free(batch)
        logits = llama_cpp.llama_get_logits_ith(self.pointer, -1)
        return np.ctypeslib.as_array(logits, (self._words,)).copy()

    def forget(self, sequence: int, first: int, end: int) -> None:
        memory = llama_cpp.llama_get_memory(self.pointer)
        llama_cpp.llama_memory_seq_rm(memory, sequence, first, end)


def restore(model: str, params: dict[str, Any], settings: dict[str, Any], scattered: bool) -> dict:
    """A state from a context's sequence into another context's other one, then the same tokens.

    `scattered`: the cells of the sequence are not in the order of its tokens.
    """
    loaded = llama_cpp.llama_model_load_from_file(
        model.encode(), llama_cpp.llama_model_default_params()
    )
    wanted = {"n_ctx": 1024, "n_batch": 1024, "n_threads": 2, "n_threads_batch": 2, "n_seq_max": 2}
    given = llama_cpp.llama_context_default_params()
    for name, value in (wanted | params).items():
        setattr(given, name, value)
    tokens = [3 + (i * 7) % 500 for i in range(330)]
    prefix, rest = tokens[:300], tokens[300:]
    first = Context(loaded, given)
    if scattered:
        first.decode(1, 0, tokens[:100])
        first.decode(0, 0, prefix[:50])
        first.forget(1, 0, 100)
        first.decode(0, 50, prefix[50:100])
    began_s = time.perf_counter()
    held = 100 if scattered else 0
    first.decode(0, held, prefix[held:])
    prefill_s = time.perf_counter() - began_s
    given.n_ctx = 2048
    second = Context(loaded, given)
    with SequenceStore(model, loaded, given, **settings) as store:
        saved = store.save(first.pointer, 0, prefix)
        began_s = time.perf_counter()
        restored = store.restore(second.pointer, 1, tokens)
        restore_s = time.perf_counter() - began_s
        stored_bytes = store.stored_bytes
        missed = store.restore(second.pointer, 0, [7, *tokens])
    is_same = all(map(np.array_equal, planes(first.pointer, 0), planes(second.pointer, 1)))
    wanted_logits = first.decode(0, 300, rest)
    logits = second.decode(1, restored, tokens[restored:])
    return {
        "saved": saved,
        "restored": restored,
        "missed": missed,
        "is_same": is_same,
        "error": float(np.abs(logits - wanted_logits).max()),
        "scale": float(np.abs(wanted_logits).max()),
        "prefill_ms": prefill_s * 1e3,
        "restore_ms": restore_s * 1e3,
        "stored_bytes": stored_bytes,
    }


def planes(context: Any, sequence: int) -> list[np.ndarray]:
    """K and V of a sequence in the order of its tokens."""
    return SequenceState.parse(compat.read_sequence(context, sequence), head_bytes=8).planes


def write_model(target: str, seed: int = 0, has_windows: bool = False) -> None:
    """A GGUF file of a model as large as recall_3m, of random weights whose attention matters.

    Its tokenizer knows bytes. `has_windows`: layers see 16 tokens.
    """
    words, hidden, inner, layers, heads, kv_heads = 512, 256, 512, 3, 4, 2
    head_dim = 64 if has_windows else 128
    writer = gguf.GGUFWriter(target, "cohere2" if has_windows else "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_vocab_size(words)
    if has_windows:
        writer.add_layer_norm_eps(1e-5)
        writer.add_logit_scale(1.0)
        writer.add_sliding_window(16)
    else:
        writer.add_layer_norm_rms_eps(1e-5)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    rest = words - len(tokens)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + [f"w{number} " for number in range(rest)])
    writer.add_token_types(kinds + [gguf.TokenType.NORMAL] * rest)
    writer.add_token_scores([0.0] * words)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (words, hidden), "output_norm": (hidden,)}
    shapes |= {} if has_windows else {"output": (words, hidden)}
    for i in range(layers):
        queries, keys = heads * head_dim, kv_heads * head_dim
        layer: dict[str, tuple[int, ...]] = {
            "attn_norm": (hidden,),
            "attn_q": (queries, hidden),
            "attn_k": (keys, hidden),
            "attn_v": (keys, hidden),
            "attn_output": (hidden, queries),
            "ffn_gate": (inner, hidden),
            "ffn_up": (inner, hidden),
            "ffn_down": (hidden, inner),
        }
        layer |= {} if has_windows else {"ffn_norm": (hidden,)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in layer.items()}
    generator = np.random.default_rng(seed)
    for name, shape in shapes.items():
        is_norm = len(shape) == 1
        weights = np.ones(shape) if is_norm else generator.normal(0, 0.15, shape)
        if name == "output":
            weights[: len(tokens)] = 0  # No text ends early or amid a character.
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32 if is_norm else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def refuse(model: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raises what a cache for such a Llama raises."""
    LlamaNearKVCache(new_llama(model, options), **settings)


if __name__ == "__main__":
    tell(each(question(), partial(call, globals())))
