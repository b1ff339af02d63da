"""What a file says of costs, tiers and policies' own weights, over what these have by default."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self, TypeVar

from _nearkv import CostModel, DynamoWeights, MooncakeThresholds, Tier

from nearkv.router.tables import ConfigError, checked

_T = TypeVar("_T")
_TIERS = {"gpu": Tier.GPU, "dram": Tier.DRAM, "cxl": Tier.CXL, "shared": Tier.SHARED}
_COST = ("prefill_tokens_per_s", "peer_bytes_per_s")
_TIER = ("weight", "bytes_per_s", "latency_s")
_DYNAMO = tuple(name for name in dir(DynamoWeights) if not name.startswith("_"))
_MOONCAKE = ("kvcache_balancing_threshold",)


@dataclasses.dataclass(frozen=True)
class Costs:
    """What policies go by. Sizes of blocks and the promised TTFT are keys of the file's own."""

    model: CostModel = dataclasses.field(default_factory=CostModel)
    dynamo: DynamoWeights = dataclasses.field(default_factory=DynamoWeights)
    mooncake: MooncakeThresholds = dataclasses.field(default_factory=MooncakeThresholds)
    media: Mapping[str, Tier] = dataclasses.field(default_factory=dict)
    """Tiers of places that engines name and the router does not know."""

    @classmethod
    def parse(cls, tables: Mapping[str, Any]) -> Self:
        """Of the tables [cost], [tiers.NAME], [dynamo], [mooncake] and [media]. ConfigError.

        Whether numbers are in their range the router checks.
        """
        model = _changed(CostModel(), tables.get("cost", {}), "[cost]", _COST)
        names = checked(tables.get("tiers", {}), "[tiers]", dict.fromkeys(_TIERS, dict))
        model.tiers = [
            _changed(cost, names.get(name, {}), f"[tiers.{name}]", _TIER)
            for name, cost in zip(_TIERS, model.tiers, strict=True)
        ]
        return cls(
            model,
            _changed(DynamoWeights(), tables.get("dynamo", {}), "[dynamo]", _DYNAMO),
            _changed(MooncakeThresholds(), tables.get("mooncake", {}), "[mooncake]", _MOONCAKE),
            _media(tables.get("media", {})),
        )


TABLES = ("cost", "tiers", "dynamo", "mooncake", "media")
"""What Costs.parse() reads."""


def _changed(options: _T, table: Any, where: str, names: tuple[str, ...]) -> _T:
    for name, value in checked(table, where, dict.fromkeys(names, float)).items():
        setattr(options, name, value)
    return options


def _media(table: Any) -> dict[str, Tier]:
    if not isinstance(table, dict):
        raise ConfigError(f"[media] is a table, not {table!r}")
    for name, tier in table.items():
        if tier not in _TIERS:
            raise ConfigError(f"[media]: {name} is in one of {', '.join(_TIERS)}, not {tier!r}")
    return {name: _TIERS[tier] for name, tier in table.items()}
