"""Results of what was measured: of each method and figure one, with its curve over budgets."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median, pstdev
from typing import Any

from bench.kept.claims import CLAIMS
from bench.kept.costs import Cost
from bench.kept.measure import Quality
from bench.kept.methods import METHODS
from bench.kept.pooled import CODECS, Pooled
from nearkv.core import Codec
from nearkv.results import Result

SHOWN_BUDGET = 0.20
"""Whose figures a row of the table has; the curves have all."""
FEW = 0.10
"""Of the tokens: the budget of recall by depth and by length."""
_PERCENT = "% of the tokens"
_BY_DEPTH, _BY_LENGTH = "recall by depth, at 10 %", "recall by length, at 10 %"


@dataclass(frozen=True)
class _Figure:
    unit: str
    read: Callable[[Quality], Sequence[float]]


FIGURES = {
    "loss": _Figure("nats a token", lambda quality: quality.losses),
    "divergence": _Figure("nats a token", lambda quality: quality.divergences),
    "agreement": _Figure("of tokens", lambda quality: quality.agreements),
    "recall": _Figure("of needles", lambda quality: _shares(quality.recalled)),
    "recall_asked": _Figure("of needles", lambda quality: _shares(quality.recalled_asked)),
    "hops": _Figure("of hops", lambda quality: _shares(quality.hops)),
    "same_tokens": _Figure("tokens", lambda quality: quality.same_tokens),
    "drift": _Figure("nats a token", lambda quality: quality.drifts),
}
BRIEF_FIGURES = ("loss", "divergence", "agreement", "recall", "recall_asked")
"""Of measure_briefly."""
_COSTS: dict[str, tuple[str, Callable[[Cost], float]]] = {
    "near": ("MB a token", lambda cost: cost.near_bytes / 1e6),
    "link": ("MB a token", lambda cost: cost.link_bytes / 1e6),
    "time": ("ms a token", lambda cost: cost.seconds * 1e3),
}


@dataclass
class Measured:
    """Everything that a run of the bench found."""

    budgets: Sequence[float]
    device: str
    dense: Quality = field(default_factory=Quality)
    dense_cost: Cost = field(default_factory=lambda: Cost(0, 0, 0, 0))
    kept: dict[tuple[str, float], Quality] = field(default_factory=dict)
    costs: dict[tuple[str, float], Cost] = field(default_factory=dict)
    by_length: dict[tuple[str, int], Quality] = field(default_factory=dict)
    pooled: dict[tuple[Codec, float], Pooled] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    """Before the names of figures, with a slash at its end."""
    papers: Mapping[str, str] = field(
        default_factory=lambda: {name: method.paper for name, method in METHODS.items()}
    )
    """Where methods come from."""

    def results(self) -> Iterator[Result]:
        """Dense attention's, then each method's, then what papers claim."""
        yield from self._quality_of_dense(FIGURES)
        for method, one in METHODS.items():
            yield from self._quality_of(method, FIGURES)
            if one.has_commands:
                yield from self._cost_of(method)
            yield from self._recall_of(method)
        for codec in CODECS if self.pooled else ():
            yield from self._pooled(codec)
        yield from self._claims()

    def brief_results(self, names: Iterable[str] = BRIEF_FIGURES) -> Iterator[Result]:
        """Of these figures dense attention's, then those of the methods that were measured."""
        yield from self._quality_of_dense(names)
        for method in dict.fromkeys(method for method, _ in self.kept):
            yield from self._quality_of(method, names)

    def _quality_of_dense(self, names: Iterable[str]) -> Iterator[Result]:
        for name in names:
            figure = FIGURES[name]
            yield self._result(f"dense/{name}", figure.unit, figure.read(self.dense))

    def _quality_of(self, method: str, names: Iterable[str]) -> Iterator[Result]:
        for name in names:
            figure = FIGURES[name]
            readings = [figure.read(self.kept[method, budget]) for budget in self.budgets]
            dense = mean(figure.read(self.dense))
            curve = self._by_budget(f"{self.group}{name}", method) | _means(readings)
            peer = {"peer": "dense", "peer_value": dense} if dense else {}
            yield self._result(
                f"{method}/{name}", figure.unit, readings[self._shown()], curve, **peer
            )

    def _cost_of(self, method: str) -> Iterator[Result]:
        costs = [self.costs[method, budget] for budget in self.budgets]
        for name, (unit, read) in _COSTS.items():
            curve = self._by_budget(name, method) | {"y": [read(cost) for cost in costs]}
            peer = {"peer": "dense", "peer_value": read(self.dense_cost)}
            if name == "link":
                moved = costs[self._shown()].moved_bytes / 1e6
                peer = {"peer": "K and V to the host", "peer_value": moved}
            yield self._result(f"{method}/{name}", unit, [curve["y"][self._shown()]], curve, **peer)
        for name in ("recall", "divergence"):
            figure = FIGURES[name]
            values = [mean(figure.read(self.kept[method, budget])) for budget in self.budgets]
            curve = {
                "plot": f"{name} by bytes read near the data",
                "line": method,
                "x_label": "MB a token",
                "x_scale": "log",
                "x": [cost.near_bytes / 1e6 for cost in costs],
                "y": values,
            }
            yield self._result(
                f"{method}/{name}_by_bytes", figure.unit, [values[self._shown()]], curve
            )

    def _recall_of(self, method: str) -> Iterator[Result]:
        if few := self.kept.get((method, FEW)):
            needles = list(zip(*few.recalled, strict=True))
            curve = {
                "plot": _BY_DEPTH,
                "line": method,
                "x_label": "% of the prompt",
                "x": [100 * (i + 0.5) / len(needles) for i in range(len(needles))],
                "y": [mean(one) for one in needles],
            }
            yield self._result(f"{method}/recall_by_depth", "of needles", curve["y"], curve)
        lengths = {
            tokens: quality for (name, tokens), quality in self.by_length.items() if name == method
        }
        if lengths:
            readings = [_shares(quality.recalled) for quality in lengths.values()]
            curve = {
                "plot": _BY_LENGTH,
                "line": method,
                "x_label": "tokens",
                "x": list(lengths),
                **_means(readings),
            }
            yield self._result(f"{method}/recall_by_length", "of needles", curve["y"], curve)

    def _pooled(self, codec: Codec) -> Iterator[Result]:
        line = f"pool_{codec.name.lower()}"
        all_pooled = [self.pooled[codec, budget] for budget in self.budgets]
        for name, unit, readings in (
            ("recall", "of needles", [_shares(one.recalled) for one in all_pooled]),
            ("page_bytes", "of uncompressed", [one.page_shares for one in all_pooled]),
            ("near", "MB a token", [[b / 1e6 for b in one.near_bytes] for one in all_pooled]),
            ("link", "MB a token", [[b / 1e6 for b in one.link_bytes] for one in all_pooled]),
        ):
            plot = "a pool's retention" if name == "page_bytes" else name
            curve = self._by_budget(plot, line) | _means(readings)
            yield self._result(f"{line}/{name}", unit, readings[self._shown()], curve)

    def _claims(self) -> Iterator[Result]:
        for claim in CLAIMS:
            if (quality := self.kept.get((claim.method, claim.budget))) is None:
                continue
            for name in ("recall_asked", "recall", "agreement"):
                dense = mean(FIGURES[name].read(self.dense))
                if not dense:
                    continue
                ratio = mean(FIGURES[name].read(quality)) / dense
                yield Result(
                    name=f"quality/claims/{claim.method}_{100 * claim.budget:g}/{name}",
                    value=ratio,
                    unit="of dense",
                    peer="the paper",
                    peer_value=claim.ratio,
                    device=self.device,
                    extra={**self.extra, "claim": claim.text},
                )

    def _by_budget(self, figure: str, line: str) -> dict[str, Any]:
        """A curve that still lacks its y."""
        percents = [100 * budget for budget in self.budgets]
        return {"plot": f"{figure} by budget", "line": line, "x_label": _PERCENT, "x": percents}

    def _shown(self) -> int:
        distances = [abs(budget - SHOWN_BUDGET) for budget in self.budgets]
        return distances.index(min(distances))

    def _result(
        self,
        name: str,
        unit: str,
        readings: Sequence[float],
        curve: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Result:
        extra = dict(self.extra)
        if curve:
            elsewhere = "evicted pages are compressed, and come back"
            paper = self.papers.get(name.partition("/")[0], elsewhere)
            extra |= {"budget": self.budgets[self._shown()], "paper": paper, "curve": dict(curve)}
        return Result(
            name=f"quality/{self.group}{name}",
            value=mean(readings),
            unit=unit,
            median=median(readings),
            minimum=min(readings),
            maximum=max(readings),
            device=self.device,
            extra=extra,
            **fields,
        )


def _shares(answers: Sequence[Sequence[bool]]) -> list[float]:
    return [mean(one) for one in answers]


def _means(readings: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """The y of a curve, and how far the readings of each point lie apart."""
    return {"y": [mean(one) for one in readings], "spread": [pstdev(one) for one in readings]}
