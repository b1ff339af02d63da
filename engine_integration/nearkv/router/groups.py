"""KV cache groups: a hybrid model's engine tells of its blocks once for each kind of layer."""

from collections.abc import Iterable, Mapping
from typing import Any

# Groups that need all of a prompt's beginning, as vLLM names their kinds.
_WHOLE = {"full_attention", "mla_attention", "sink_full_attention"}


class CacheGroups:
    """Which of an engine's groups say how much of a prompt it has.

    A window or a state needs no more than a prompt's last blocks, and gives up the others while
    the prompt can still be used. Where an engine has groups of full attention, those alone count.
    """

    def __init__(self) -> None:
        self._whole: set[int] = set()

    def learn(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Takes up what events, as kv_events.wire.decode_batch yields them, tell of groups."""
        for kind, fields in events:
            if kind == "BlockStored" and fields["kv_cache_spec_kind"] in _WHOLE:
                self._whole |= {fields["group_idx"]} - {None}

    def counts(self, group: int | None) -> bool:
        """Whether events of a group count; None is that of an engine that names none."""
        return group is None or not self._whole or group in self._whole
