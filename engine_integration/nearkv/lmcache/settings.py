"""What LMCache's configuration may say of NearKV."""

import dataclasses

from nearkv.store.settings import StoreSettings


@dataclasses.dataclass
class LMCacheSettings(StoreSettings):
    """Which store, and who shares chunks."""

    layout: str = ""
    """What chunks of one model must have in common beside their size: LMCache's keys do not say.
    Set it to the dtype if engines of several share a store."""


@dataclasses.dataclass
class LeasingSettings(LMCacheSettings):
    """Where LMCache says what it is about to load."""

    lease_s: float = 60.0
    """How long at most what was promised is kept from eviction."""
