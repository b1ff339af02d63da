"""Who is routed next, of those that wait."""

from collections.abc import Collection, Sequence

import _nearkv
import numpy as np

from nearkv.router.router import Router


class KlpmQueue:
    """k-LPM (Dexter et al., 2025), fair among tenants (VTC, Sheng et al., OSDI '24).

    The turn is the oldest request's, of the tenant to whom the fewest blocks were given; then,
    k - 1 times, the one's of which a worker with room has the most blocks. Thread safety: one
    thread at a time.
    """

    def __init__(self, router: Router, *, k: int, most: int) -> None:
        """`k` from 1, which is first come, first served; at most `most` requests wait."""
        self._router = router
        self._core = _nearkv.KlpmQueue(k, most)

    def push(
        self,
        number: int,
        tenant: str,
        hashes: np.ndarray | Sequence[int],
        blocks: int,
        among: Collection[str],
    ) -> None:
        """A request of `blocks` blocks that may go to the workers `among`.

        Error POOL_FULL: too many wait; EXISTS: that number does; NOT_FOUND: no such worker.
        """
        self._core.push(number, tenant, hashes, blocks, self._router.numbers(among))

    def pop(self, with_room: Collection[str]) -> int | None:
        """The next that can go to one of the workers that have room; None: there is none."""
        return self._core.pop(self._router.core, self._router.numbers(with_room))

    def erase(self, number: int) -> None:
        """It waits no more. Error NOT_FOUND."""
        self._core.erase(number)

    def __len__(self) -> int:
        return len(self._core)
