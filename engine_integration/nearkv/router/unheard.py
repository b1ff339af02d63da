"""Engines that answer prompts and of which no event comes: nothing else would tell of it."""

import logging
from collections import Counter
from collections.abc import Mapping

from nearkv.router.subscriber import EventSubscriber

_LOG = logging.getLogger("nearkv.router")
_PROMPTS = 8  # An engine tells of a prompt's blocks while it computes it.


class Unheard:
    """Warns, once each, of engines that should have told of blocks by now."""

    def __init__(self, events: EventSubscriber, endpoints: Mapping[str, str]) -> None:
        """`endpoints`: where each engine's events are listened for."""
        self._events = events
        self._endpoints = endpoints
        self._answered: Counter[str] = Counter()

    def answered(self, worker: str) -> None:
        """It has answered a prompt of one whole block or more."""
        self._answered[worker] += 1
        if self._answered[worker] != _PROMPTS or worker not in self._endpoints:
            return
        if self._events.counters(worker).batches == 0:
            _LOG.warning(
                "%s has answered %d prompts and told of no block, so that it is chosen by its load"
                " alone: is %s where it publishes its events? vLLM binds tcp://*:PORT and ipc://,"
                " and connects to tcp://HOST:PORT",
                worker,
                _PROMPTS,
                self._endpoints[worker],
            )
