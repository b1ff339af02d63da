"""LMCache's native connector: its batches go to the C++ core as they come."""

from typing import Any

import _nearkv
from lmcache.logging import init_logger

from nearkv.lmcache import compat  # noqa: F401  It warns of versions that are not known.
from nearkv.lmcache.settings import LMCacheSettings

logger = init_logger(__name__)


class NearKVClient(_nearkv.LMCacheClient):
    """Batches of get, set, exists and delete over a NearKV store, of any size.

    Between the store and LMCache's memory bytes are copied once. A chunk that is damaged, or has
    another size than is asked for, is a miss. LMCache does not tell a connector when it is done
    with what it looked up, so nothing is kept from eviction: `NearKVL2Adapter` does that.
    """

    def __init__(self, **settings: Any) -> None:
        """See LMCacheSettings. ValueError or nearkv.core.Error if it cannot be."""
        options = LMCacheSettings.parse("a NearKV connector", settings)
        store = options.open()
        super().__init__(
            store._core,
            tenant=options.tenant,
            layout=options.layout,
            salt=options.salt.encode(),
        )
        self._said = ""  # The last warning, which is not repeated.

    def drain_completions(self) -> list[tuple[int, bool, str, list[bool]]]:
        """Batches that are over: id, whether it succeeded, why not, whether each item did."""
        completions = super().drain_completions()
        for _, _, error, _ in completions:
            if error and error != self._said:
                logger.warning("NearKV connector: %s", error)
                self._said = error
        return completions
