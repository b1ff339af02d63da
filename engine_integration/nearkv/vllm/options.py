"""What a configuration may say of a NearKV store, wherever in vLLM's it stands."""

import dataclasses
from collections.abc import Collection
from typing import Any, Self

from vllm.v1.kv_offload.base import Locality

from nearkv.store.settings import StoreSettings


@dataclasses.dataclass
class VllmStoreSettings(StoreSettings):
    """The store, whose chunks these are, and what is told of them."""

    enable_kv_events: bool = False
    """Tell vLLM's KV events of chunks that come and go."""
    locality: str = ""
    """What events say of the store: LOCAL or REMOTE; nothing by default."""

    @classmethod
    def parse(cls, whose: str, settings: dict[str, Any], others: Collection[str] = ()) -> Self:
        """As any store's settings."""
        options = super().parse(whose, settings, others)
        if options.locality and options.locality not in Locality.__members__:
            raise ValueError(f"locality is LOCAL or REMOTE, not '{options.locality}'")
        return options

    @property
    def event_locality(self) -> Locality | None:
        """The locality of events."""
        return Locality[self.locality] if self.locality else None
