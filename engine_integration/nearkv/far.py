"""How much of a pool an attention reads: what the engines' adapters ask of Pool.attend."""

from dataclasses import dataclass
from typing import Any

from nearkv.core import MAX_TOP_K, AttendMode, Pool


@dataclass(frozen=True, kw_only=True)
class FarAttention:
    """How much of the pool an attention reads.

    DENSE reads every visible token and is exact. The others need a pool with codes, and read all of
    fewer than 2,048 visible tokens. BOUNDED is the one to take: it reads as much as keeps the
    relative error of the pool's part at `error` or below, by the device's own measure, which is a
    statistical one. TAIL reads the best `top_k` tokens of each query exactly and the others by
    their codes, and promises nothing. With `if_faster` both read all while that is measured to be
    faster.
    """

    mode: AttendMode = AttendMode.DENSE
    top_k: int = 64
    error: float = 0.05
    if_faster: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MAX_TOP_K:
            raise ValueError(f"top_k is {self.top_k}; it must be from 1 to {MAX_TOP_K}")
        if not 0 < self.error <= 1:
            raise ValueError(f"error is {self.error}; it must be above 0 and at most 1")

    @classmethod
    def of(cls, far: "FarAttention | None", pool: Pool) -> "FarAttention":
        """One that was asked for, or DENSE. Raises ValueError if the pool cannot be read so."""
        far = far or cls()
        far.check(pool)
        return far

    def options(self) -> dict[str, Any]:
        """Keyword arguments of Pool.attend."""
        return {
            "mode": self.mode,
            "top_k": self.top_k,
            "error": self.error,
            "if_faster": self.if_faster,
        }

    def check(self, pool: Pool) -> None:
        """Raises ValueError if a pool cannot be read so."""
        if self.mode != AttendMode.DENSE and not pool.codes:
            raise ValueError(
                f"mode {self.mode.name} reads by codes, and the pool's pages get none: make the "
                "pool with codes=True"
            )
