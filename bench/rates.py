"""Curves of a simulated cluster against the rate of its requests, by policy and by tiers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nearkv.results import Result

_CLUSTER = "clusters/rag"
_RATES = (1, 2, 3, 3.5, 4, 4.5, 5, 6)
_KEPT = 0.9
_POLICIES = {policy: ("--policy", policy) for policy in ("sarathi", "k_lpm", "cache_aware")}
_TIERS = {
    "none": ("--no-tiers",),
    "dram": ("--tiers", "dram"),
    "dram+nvme": ("--tiers", "dram,nvme"),
}
_FIGURES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], float]]] = {
    "goodput": ("requests/s", lambda report: report["goodput_per_s"]),
    "ttft_p50": ("s", lambda report: report["ttft_s"]["p50"]),
    "ttft_p99": ("s", lambda report: report["ttft_s"]["p99"]),
    "tpot_p99": ("s", lambda report: report["tpot_s"]["p99"]),
}


def rate_curves(run: Callable[..., dict[str, Any]], *, tiny: bool) -> Iterator[Result]:
    """Goodput, TTFT and TPOT of questions about documents, and the bytes of each tier.

    `run(file, *options)` gives the report of a cluster. A row of the table has the curve's value at
    the highest rate at which 90 % of the requests are still served as promised.
    """
    rates = _RATES[:2] if tiny else _RATES
    for by, variants in (("policy", _POLICIES), ("tiers", _TIERS)):
        for line, options in variants.items():
            reports = [run(_CLUSTER, "--rate", str(rate), *options) for rate in rates]
            yield from _curves(by, line, rates, reports)
            if line == "dram+nvme":
                yield from _bytes(rates, reports)


def _curves(
    by: str, line: str, rates: Sequence[float], reports: Sequence[Mapping[str, Any]]
) -> Iterator[Result]:
    kept = [index for index, report in enumerate(reports) if report["kept"] >= _KEPT]
    at = max(kept, default=0)
    for figure, (unit, read) in _FIGURES.items():
        values = [read(report) for report in reports]
        yield _curve(
            f"traces/rate/{by}/{line}/{figure}",
            unit,
            f"RAG by {by}: {_titled(figure)}",
            line,
            rates,
            values,
            at,
        )


def _titled(figure: str) -> str:
    word, _, rank = figure.partition("_")
    return f"{word.upper()} {rank.upper()}" if rank else word


def _bytes(rates: Sequence[float], reports: Sequence[Mapping[str, Any]]) -> Iterator[Result]:
    """Of each tier and direction, for a request."""
    for tier in ("dram", "nvme"):
        for way in ("read", "written"):
            values = [
                report["moved"][tier][f"{way}_bytes"] / 1e6 / report["requests"]
                for report in reports
            ]
            name = f"traces/rate/bytes/{tier}/{way}"
            title = "RAG over DRAM and NVMe: bytes of each tier"
            yield _curve(name, "MB a request", title, f"{tier}, {way}", rates, values, 0)


def _curve(
    name: str,
    unit: str,
    plot: str,
    line: str,
    rates: Sequence[float],
    values: Sequence[float],
    at: int,
) -> Result:
    curve = {
        "plot": plot,
        "line": line,
        "x_label": "requests/s",
        "y_scale": "log" if unit == "s" else "linear",
        "x": rates,
        "y": values,
    }
    return Result(
        name=name,
        value=values[at],
        unit=unit,
        device="simulated",
        extra={"at_requests_per_s": rates[at], "curve": curve},
    )
