"""What llama-cpp-python does not promise, and calls of llama.cpp that it leaves to ctypes."""

import ctypes
import logging
from typing import Any

import llama_cpp
import numpy as np

from nearkv.versions import check_version

_logger = logging.getLogger(__name__)

check_version(llama_cpp, "0.3.36", "nearkv.llama_cpp")

# Of a context's parameters those that change what K and V a token has.
_NUMERIC_PARAMETERS = (
    "rope_scaling_type",
    "rope_freq_base",
    "rope_freq_scale",
    "yarn_ext_factor",
    "yarn_attn_factor",
    "yarn_beta_fast",
    "yarn_beta_slow",
    "yarn_orig_ctx",
    "attention_type",
)
_PROBE_TOKENS = 256


class UnusableModel(ValueError):
    """Its states, or those of this Llama, cannot be kept; the text says why."""


def version() -> str:
    """Of the binding and of the library that it has loaded."""
    return f"{llama_cpp.__version__}/{llama_cpp.llama_version().decode()}"


def handles(llama: llama_cpp.Llama) -> tuple[Any, Any]:
    """Its model and its context, for calls of llama.cpp."""
    return llama._model.model, llama._ctx.ctx


def variant(llama: llama_cpp.Llama) -> str:
    """What of a Llama changes its states, beside its files and its context."""
    return repr((llama.lora_path and llama.lora_scale, llama.kv_overrides))


def check_usable(llama: llama_cpp.Llama) -> None:
    """UnusableModel for what a cache of states by tokens would get wrong."""
    if llama._logits_all:
        raise UnusableModel("logits_all=True needs the scores of all tokens, which are not stored")
    if isinstance(llama.chat_handler, llama_cpp.llama_chat_format.Llava15ChatHandler):
        raise UnusableModel("with images, tokens do not tell what a state is of")


def numeric_parameters(model: Any, params: Any) -> dict[str, Any]:
    """Those of a context that have to be equal wherever a state is restored."""
    found = {name: getattr(params, name) for name in _NUMERIC_PARAMETERS}
    architecture = _metadata(model, "general.architecture")
    if _metadata(model, f"{architecture}.rope.scaling.original_context_length"):
        # Such a model may choose its rope by the size of a context.
        found["context"] = params.n_ctx // (1 if params.kv_unified else max(params.n_seq_max, 1))
    return found


def streams(params: Any) -> int:
    """Into how many parts a context's cells are divided among its sequences."""
    return 1 if params.kv_unified else max(params.n_seq_max, 1)


def read_sequence(context: Any, sequence: int) -> np.ndarray:
    """The state of a sequence, as llama.cpp writes it."""
    size = llama_cpp.llama_state_seq_get_size(context, sequence)
    return _filled(size, lambda at: llama_cpp.llama_state_seq_get_data(context, at, size, sequence))


def write_sequence(context: Any, sequence: int, data: np.ndarray) -> bool:
    """Replaces a sequence by a state; False, and it is empty, if the context has no room for it."""
    at = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    if llama_cpp.llama_state_seq_set_data(context, at, data.nbytes, sequence) == data.nbytes:
        return True
    clear_sequence(context, sequence)
    return False


def clear_sequence(context: Any, sequence: int) -> None:
    """Empties a sequence."""
    llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(context), sequence, -1, -1)


def probe(model: Any, params: Any) -> tuple[np.ndarray, bytes, bytes]:
    """What states of such a context look like: that of one token, in a small one of its own.

    Returns the state as a sequence's, and what the states of sequences and of whole contexts begin
    with. UnusableModel if a token leaves no state.
    """
    small = type(params).from_buffer_copy(params)
    small.n_ctx, small.n_batch, small.n_ubatch, small.n_seq_max = _PROBE_TOKENS, 1, 1, 1
    small.embeddings = False
    context = llama_cpp.llama_init_from_model(model, small)
    if not context:
        raise UnusableModel("llama.cpp makes no context of these parameters")
    try:
        token = (llama_cpp.llama_token * 1)(0)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(token, 1)) != 0:
            raise UnusableModel("llama.cpp does not decode a token of this model")
        state = read_sequence(context, 0)
        size = llama_cpp.llama_state_get_size(context)
        whole = _filled(size, lambda at: llama_cpp.llama_state_get_data(context, at, size))
    finally:
        llama_cpp.llama_free(context)
    head_bytes = 2 * ctypes.sizeof(ctypes.c_uint32)  # A magic number and the sequence's.
    body = state[head_bytes:]
    if not np.array_equal(whole[-len(body) :], body):
        raise UnusableModel("this llama.cpp writes states of contexts and of sequences differently")
    return state, state[:head_bytes].tobytes(), whole[: -len(body)].tobytes()


def _filled(size: int, fill: Any) -> np.ndarray:
    data = np.empty(size, np.uint8)
    wrote = fill(data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)))
    if wrote != size:
        raise RuntimeError(f"llama.cpp wrote {wrote} of the {size} bytes of a state")
    return data


def _metadata(model: Any, key: str) -> str:
    text = ctypes.create_string_buffer(256)
    length = llama_cpp.llama_model_meta_val_str(model, key.encode(), text, len(text))
    return text.value.decode() if length >= 0 else ""
