"""llama-cpp-python's cache of states, in a store that outlives it."""

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp.llama_cache import BaseLlamaCache

from nearkv.llama_cpp import compat
from nearkv.llama_cpp.sequences import SequenceStore
from nearkv.llama_cpp.state import SequenceState, UnknownState

_logger = logging.getLogger(__name__)


class LlamaNearKVCache(BaseLlamaCache):
    """For `llm.set_cache(LlamaNearKVCache(llm, ...))`: known prefixes are not computed again.

    Nor in another process, after a restart, or by others that use a daemon with the same salt.
    What does not come back whole is computed. `store.close()` ends its use of the store.
    """

    def __init__(self, llama: llama_cpp.Llama, **settings: Any) -> None:
        """See SequenceSettings for `settings`, SequenceStore for what is raised.

        UnusableModel also for logits_all=True, whose scores are not stored, and for handlers of
        images, which tokens do not tell apart.
        """
        compat.check_usable(llama)
        self.store = SequenceStore.for_llama(llama, **settings)
        self._llama = weakref.ref(llama)

    @property
    def cache_size(self) -> int:
        """Bytes of all objects in the store."""
        return self.store.stored_bytes

    def __contains__(self, key: Sequence[int]) -> bool:
        """Whether a state is stored of any prefix of these tokens."""
        return self.store.find(key) > 0

    def __getitem__(self, key: Sequence[int]) -> llama_cpp.LlamaState:
        """The state of the longest stored prefix.

        KeyError if there is none, or none longer than what the Llama itself holds.
        """
        llama = self._llama()
        if llama is None:
            raise KeyError("the Llama is gone")
        held = llama.longest_token_prefix(llama._input_ids.tolist(), key)
        if self.store.find(key[: llama.n_ctx()]) <= held:
            raise KeyError("nothing is stored that the context does not hold")
        state = self.store.blocks.load(key[: llama.n_ctx()], self.store.whole_head, streams=1)
        if state is None:
            raise KeyError("nothing is stored")
        input_ids = np.full_like(llama.input_ids, -1)
        input_ids[: state.tokens] = key[: state.tokens]
        return llama_cpp.LlamaState(
            input_ids=input_ids,
            scores=np.zeros((1, llama.n_vocab()), np.single),  # For all tokens: none are kept.
            n_tokens=state.tokens,
            llama_state=state.data.data,
            llama_state_size=state.data.nbytes,
            seed=llama._seed,
        )

    def __setitem__(self, key: Sequence[int], value: llama_cpp.LlamaState) -> None:
        """Stores what is not there yet of a state; one that cannot be stored is left out."""
        tokens = value.input_ids[: value.n_tokens].tolist()
        data = np.frombuffer(value.llama_state, np.uint8)
        try:
            state = SequenceState.parse(data, len(self.store.whole_head))
            self.store.blocks.save(state, tokens)
        except (UnknownState, ValueError) as error:
            _logger.warning("NearKV cache: a state was not stored: %s", error)
