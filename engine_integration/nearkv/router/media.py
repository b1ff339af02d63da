"""What engines call the places of blocks, and the tiers that a router weighs."""

from collections.abc import Mapping

from _nearkv import Tier

# As vLLM, SGLang, Dynamo and llm-d name them. No medium is a GPU's: engines of before tiers.
TIERS: Mapping[str, Tier] = {
    "": Tier.GPU,
    "GPU": Tier.GPU,
    "DEVICE": Tier.GPU,
    "CPU": Tier.DRAM,
    "CPU_PINNED": Tier.DRAM,
    "CPU_TIER1": Tier.DRAM,
    "CPU_TIER2": Tier.CXL,
    "CXL": Tier.CXL,
    "DISK": Tier.SHARED,
    "NVME": Tier.SHARED,
    "STORAGE": Tier.SHARED,
    "EXTERNAL": Tier.SHARED,
    "NETWORK": Tier.SHARED,
    "REMOTE": Tier.SHARED,
    "SHARED": Tier.SHARED,
}


class UnknownMedium(ValueError):
    """An event names a place that is no tier here."""


def tier_of(medium: str | None, more: Mapping[str, Tier]) -> Tier:
    """The tier of an event's medium; `more` comes before TIERS. UnknownMedium."""
    name = (medium or "").upper()
    found = more.get(name, TIERS.get(name))
    if found is None:
        raise UnknownMedium(
            f"no tier is known for the medium {medium!r}: name one with media={{{name!r}: Tier.…}}"
            " (in a front end's file, under [media]),"
            f" or let the publisher say one of {', '.join(filter(None, TIERS))}"
        )
    return found
