"""What is placed, where it was placed, and why it was not."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from nearkv.router.decision import Decision, StartedRequest
from nearkv.router.metrics import RouterMetrics
from nearkv.router.pool_room import Reservation
from nearkv.router.prompts import guessed_tokens

Hashes = np.ndarray | Sequence[int]


class Refused(RuntimeError):
    """A request that is sent to no engine; `text` says why, for the client."""

    def __init__(self, text: str, status: int, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.retry_after_s = retry_after_s


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A request's body, how many tokens its prompt has, and the hashes of its blocks."""

    body: Mapping[str, Any]
    tokens: int
    hashes: Hashes
    waits: bool = True  # in the queue, when all engines are at their limit
    has_room: bool = False  # in a pool, where another engine has stored its blocks


NO_PROMPT = Prompt({}, 1, (), waits=False)  # Of a request that computes none, such as /v1/models.
_COMPUTE_NOTHING = {
    "/tokenize",
    "/detokenize",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/v1/messages/count_tokens",
}


def unseen_prompt(method: str, path: str, body_bytes: int) -> Prompt:
    """Of a request whose tokens are not known here, by its method and path.

    Whatever is posted to an engine has it compute a prompt, but for a few pages: of another API,
    too, and of one that is yet to come.
    """
    if method != "POST" or path.partition("?")[0] in _COMPUTE_NOTHING:
        return NO_PROMPT
    return Prompt({}, guessed_tokens(body_bytes), ())


class Placed(AbstractContextManager):
    """A request at an engine, counted in its load until finish(). A context manager.

    Thread safety: one thread at a time.
    """

    def __init__(
        self,
        decision: Decision,
        started: StartedRequest,
        room: Reservation,
        metrics: RouterMetrics,
        released: Callable[[], None],
    ) -> None:
        """`room`: where its blocks are stored. `released` is called once the engine has room."""
        self.decision = decision
        self._started = started
        self._room: Reservation | None = room
        self._metrics = metrics
        self._released = released
        self._since_s = time.monotonic()
        self._has_begun = self._has_ended = False

    @property
    def worker(self) -> str:
        """The engine's name."""
        return self.decision.worker

    def first_token(self) -> None:
        """Its prompt is computed; the second time nothing happens."""
        if not self._has_begun:
            self._has_begun = True
            self._started.first_token()
            self._metrics.first_token.observe(time.monotonic() - self._since_s)

    def take_room(self) -> Reservation:
        """The pool's room, which finish() then leaves to the caller. Once."""
        assert self._room
        room, self._room = self._room, None
        return room

    def finish(self) -> None:
        """It has ended, in whatever way; the second time nothing happens."""
        if not self._has_ended:
            self._has_ended = True
            self._started.finish()
            if self._room:
                self._room.release()
            self._metrics.request.observe(time.monotonic() - self._since_s)
            self._released()

    def __exit__(self, *exception: object) -> None:
        self.finish()
