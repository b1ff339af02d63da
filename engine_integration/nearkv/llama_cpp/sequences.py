"""States of llama.cpp's sequences in a store: by contexts, sequence numbers and tokens."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import llama_cpp

from nearkv.llama_cpp import compat
from nearkv.llama_cpp.blocks import StateBlocks
from nearkv.llama_cpp.state import SequenceState, UnknownState
from nearkv.store import ObjectStore
from nearkv.store.model_identity import digest_of_file
from nearkv.store.settings import StoreSettings

_PART_OF_MODEL = re.compile(r"(.*)-\d{5}(-of-\d{5}\.gguf)")


@dataclasses.dataclass
class SequenceSettings(StoreSettings):
    """What a SequenceStore and a LlamaNearKVCache may be given."""

    block_tokens: int = 64
    """Tokens of an object: prefixes are shared in steps of it."""
    variant: str = ""
    """What else makes states of a model differ: control vectors, adapters set by hand."""


class SequenceStore(AbstractContextManager):
    """States of sequences of one model, found by their tokens. A context manager.

    Contexts of other files of a model, parameters that change K or V, types of cache, versions of
    llama.cpp, variants or salts never find them; n_ctx, batch sizes, threads, the number of a
    sequence do not matter. Calls may come from any thread that may use the context.
    """

    def __init__(self, model_path: str, model: Any, params: Any, **settings: Any) -> None:
        """For contexts made with `params` of `model`, which was loaded from `model_path`.

        For `settings` see SequenceSettings. Reads the model's file once, and runs a token.
        UnusableModel if its memory is not one cache of keys and values; ValueError for settings;
        nearkv.core.Error if there is no store.
        """
        options = SequenceSettings.parse("a store of llama.cpp's states", settings)
        self._streams = compat.streams(params)
        state, self._sequence_head, self.whole_head = compat.probe(model, params)
        try:
            layout = SequenceState.parse(state, len(self._sequence_head)).layout
        except UnknownState as error:
            raise compat.UnusableModel(
                f"states of this model are not blocks of tokens (sliding windows and recurrent "
                f"layers are not): {error}"
            ) from error
        agreed = {
            "version": compat.version(),
            "parameters": compat.numeric_parameters(model, params),
            "planes": [layout.layers, layout.transposed, *map(str, layout.planes)],
            "variant": options.variant,
        }
        text = json.dumps(agreed, sort_keys=True)
        self._store: ObjectStore = options.open()
        space = self._store.namespace(
            options.model_version or hash_of_model(model_path),
            f"K{params.type_k} V{params.type_v}",
            f"llama.cpp-{hashlib.sha256(text.encode()).hexdigest()[:32]}",
            tenant=options.tenant,
            salt=options.salt.encode(),
        )
        try:
            self.blocks = StateBlocks(space, layout, options.block_tokens)
        except ValueError:
            self._store.close()
            raise

    @classmethod
    def for_llama(cls, llama: llama_cpp.Llama, **settings: Any) -> Self:
        """For the context of a Llama, its LoRA adapter included."""
        model, _ = compat.handles(llama)
        adapter = hash_of_model(llama.lora_path) if llama.lora_path else ""
        parts = (settings.get("variant", ""), adapter, compat.variant(llama))
        settings["variant"] = json.dumps(parts)
        return cls(llama.model_path, model, llama.context_params, **settings)

    def save(self, context: Any, sequence: int, tokens: Sequence[int]) -> int:
        """Stores what is not there yet of the state that `tokens` left in a sequence.

        Gives how many tokens' state is there now: fewer than all if the store is full or away.
        UnknownState if the sequence's positions are not 0, 1, 2 and so on; ValueError if it is
        shorter than the tokens.
        """
        data = compat.read_sequence(context, sequence)
        state = SequenceState.parse(data, len(self._sequence_head))
        return self.blocks.save(state, tokens)

    def restore(self, context: Any, sequence: int, tokens: Sequence[int]) -> int:
        """Puts the state of the longest stored prefix in place of what a sequence holds.

        Gives the prefix's tokens: as many as the sequence holds now. Logits are not part of it: to
        have some to sample from, ask for fewer tokens than there are, and decode the others.
        """
        state = self.blocks.load(tokens, self._sequence_head, self._streams)
        if state is None:
            compat.clear_sequence(context, sequence)
            return 0
        return state.tokens if compat.write_sequence(context, sequence, state.data) else 0

    def find(self, tokens: Sequence[int]) -> int:
        """How many of the tokens restore() would bring."""
        return self.blocks.find(tokens)

    @property
    def stored_bytes(self) -> int:
        """What the store's objects hold, whoever stored them."""
        return self._store.stats().object_bytes

    def close(self) -> None:
        """Closes the store, or leaves the daemon."""
        self._store.close()

    def __exit__(self, *exception: object) -> None:
        self.close()


def hash_of_model(path: str) -> str:
    """SHA-256 of a model's file, or of all files that it is split into."""
    file = Path(path)
    split = _PART_OF_MODEL.fullmatch(file.name)
    files = sorted(file.parent.glob(f"{split[1]}-?????{split[2]}")) if split else [file]
    digest = hashlib.sha256()
    for part in files:
        digest.update(bytes.fromhex(digest_of_file(part)))
    return digest.hexdigest()
