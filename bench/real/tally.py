"""What many answers of one method come to."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from bench.real.answers import JudgedAnswer


@dataclass
class Tally:
    """Answers of one method to texts' last queries, by layer; `shares` are the bytes of each."""

    errors_by_layer: dict[int, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    shares: list[float] = field(default_factory=list)

    def add(self, layer: int, answer: JudgedAnswer) -> None:
        """Counts one answer."""
        self.errors_by_layer[layer].append(answer.errors)
        self.shares.append(answer.share)

    @property
    def errors(self) -> np.ndarray:
        """Relative errors of all (query, head) pairs."""
        return np.concatenate([np.concatenate(each) for each in self.errors_by_layer.values()])

    @property
    def bytes(self) -> float:
        """Mean of the bytes read, of K and V in bf16."""
        return float(np.mean(self.shares))

    def beyond(self, error: float) -> int:
        """Pairs with a larger error."""
        return int((self.errors > error).sum())

    def summary(self) -> dict[str, float]:
        """Figures that stand beside a result."""
        errors = self.errors
        return {
            "pairs": errors.size,
            "bytes": self.bytes,
            "median_error": float(np.median(errors)),
            "p99_error": float(np.quantile(errors, 0.99)),
            "largest_error": float(errors.max()),
            "beyond_10_percent": self.beyond(0.10) / errors.size,
        }


@dataclass
class Claims:
    """Errors of answers that claim a bound, as shares of it, by layer and by visible tokens.

    Answers that read all claim an error of 0 and do not count.
    """

    by_layer: dict[int, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    by_length: dict[int, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))

    def add(self, layer: int, length: int, is_full: bool, answer: JudgedAnswer) -> None:
        """Counts one answer; by layer only those at the full length."""
        if answer.bound is None or answer.is_dense:
            return
        shares = answer.errors / answer.bound
        self.by_length[length].append(shares)
        if is_full:
            self.by_layer[layer].append(shares)


def rms(parts: list[np.ndarray]) -> float:
    """The root mean square of all."""
    return float(np.sqrt(np.mean(np.square(np.concatenate(parts)))))
