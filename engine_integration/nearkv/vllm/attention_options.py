"""What vLLM's --additional-config may say of attention near the data."""

import dataclasses
from typing import Any

from nkv_abi import PAGE_TOKENS, AttendMode

from nearkv.store.settings import refuse_unknown

KEY = "nearkv_attention"
"""Of vLLM's additional_config; without it nothing of this is in use."""
SCHEDULER = "nearkv_scheduler"
"""Beside it: what scheduler_options.py is about."""


@dataclasses.dataclass(frozen=True)
class AttentionOptions:
    """Where attention reads K and V, and how much of them."""

    uri: str = ""
    """Empty: in vLLM's own blocks; what only a pool has is then refused. Else the device of a pool,
    such as "cpu:?memory=4GiB", in which K and V lie once more. What it held is lost. {rank} becomes
    the worker's rank; layers that vLLM gives block tables of their own have a pool of this size for
    each."""
    window_tokens: int = 256
    """The newest tokens of a request, which the engine attends to itself."""
    mode: str = "dense"
    """dense is exact; bounded reads as much as keeps what it attends to within a relative error;
    tail reads the best top_k tokens of each query exactly and the others by their codes. Both
    others keep codes of K and V, which add a quarter to them."""
    top_k: int = 64
    error: float = 0.05
    if_faster: bool = True
    """By codes only while that is faster than reading all, as steps are measured to be. False:
    always."""
    gains: str = ""
    """A file of nearkv.gains for the codes, with {rank} as in uri; empty: they are learned from the
    first prompts."""
    rounded: str = ""
    """For a model in float32: bfloat16 or float16, to which K and V are rounded as they are cached,
    here and in the pool. Other models' are kept as they are."""
    max_sequences: int = 1024
    """Requests, running and ended, whose pages the pool keeps."""

    @classmethod
    def parse(cls, additional_config: Any) -> "AttentionOptions | None":
        """Options of vLLM's additional_config; None if it says nothing of NearKV.

        ValueError names what is wrong, and what may be meant.
        """
        settings = additional_config if isinstance(additional_config, dict) else {}
        for name in settings:
            if name.startswith("nearkv"):
                refuse_unknown("additional_config", [name], [KEY, SCHEDULER])
        if KEY not in settings:
            return None
        names = [field.name for field in dataclasses.fields(cls)]
        refuse_unknown(KEY, settings[KEY], names)
        of_a_pool = {"window_tokens", "rounded", "max_sequences"}
        if not settings[KEY].get("uri") and (others := settings[KEY].keys() & of_a_pool):
            raise ValueError(
                f"{KEY}: only a pool has {', '.join(sorted(others))}: name one, such as "
                '"uri": "cpu:?memory=4GiB", or leave it out'
            )
        options = cls(**settings[KEY])
        options._check()
        return options

    def _check(self) -> None:
        if self.mode.upper() not in AttendMode.__members__:
            modes = ", ".join(mode.name.lower() for mode in AttendMode)
            raise ValueError(f"{KEY}: mode is {modes}, not '{self.mode}'")
        if self.gains and self.mode == "dense":
            raise ValueError(f"{KEY}: gains are for codes, which mode dense does not read")
        if not 0 < self.error <= 1 or self.top_k < 1:
            raise ValueError(f"{KEY}: error is above 0 and at most 1, and top_k at least 1")
        if self.rounded not in ("", "bfloat16", "float16"):
            raise ValueError(f"{KEY}: rounded is bfloat16 or float16, not '{self.rounded}'")
        if self.window_tokens < PAGE_TOKENS:
            raise ValueError(
                f"{KEY}: window_tokens is {self.window_tokens}; {PAGE_TOKENS} at least"
            )


def refuse(what: str, instead: str) -> None:
    """Raises ValueError for what NearKV's attention cannot serve."""
    raise ValueError(
        f"NearKV's attention {what}; {instead}, or leave {KEY} out of --additional-config"
    )
