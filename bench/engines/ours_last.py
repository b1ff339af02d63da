"""Lies in an engine's environment: what that lacks, its interpreter finds in NearKV's own.

Not by a longer sys.path, in which a whole package would go before one that the environment has in
parts: xds-protos, which Envoy's protocol comes from, has an `opentelemetry` of its own.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from types import ModuleType

_OURS = list(filter(None, [os.environ.get("NEARKV_SITE_PACKAGES")]))


class OursLast(DistributionFinder):
    """Packages, and what is known of them, that no finder before this one has."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of a package or a module; what is inside one is found by its own path."""
        return PathFinder.find_spec(name, _OURS, target) if path is None else None

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterable[Distribution]:
        """Those of a name; all of them if there is none."""
        name = None if context is None else context.name
        there = DistributionFinder.Context(name=name, path=_OURS)
        return MetadataPathFinder.find_distributions(there)


if _OURS:
    sys.meta_path.append(OursLast())
