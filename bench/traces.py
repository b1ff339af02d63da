"""Simulates clusters, and sets policies beside each other and beside published results.

What the simulator claims is held against closed-form queues in tests/traces. Here: its speed, what
policies do to made-up workloads, and what papers claim beside what comes out with their parameters.
"""

import tomllib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bench import Context, Skipped, each_part
from bench.programs import Programs
from bench.rates import rate_curves
from nearkv.results import Goal, Result

_HERE = Path(__file__).parent
_FOLDER = _HERE / "traces"
_BASELINES = _HERE / "baselines" / "rtl.json"
_SIMULATED = "simulated"
_SPEED = Goal(">=", 1e6)
_KEPT = 0.9  # of a trace's requests, for a speed to count as served
_CONVERSATION = "mooncake_conversation.jsonl"


def run(context: Context) -> Iterator[Result]:
    """Yields what each cluster does, then the published figures beside the simulated ones."""
    simulator = _Simulator(context)
    yield from _chat(simulator)
    yield from _policies(simulator)
    yield from _near(simulator)
    yield from _plans(simulator)
    yield from rate_curves(simulator.run, tiny=simulator.tiny)
    claims = tomllib.loads((_FOLDER / "published" / "claims.toml").read_text(encoding="utf-8"))
    published = (_published(simulator, *named, context.traces) for named in claims.items())
    yield from each_part(chain([_replays(simulator, context.traces)], published))


class _Simulator:
    """The program, with the sizes that the context allows."""

    def __init__(self, context: Context) -> None:
        self._programs = Programs(context)
        self._context = context

    def run(self, file: str, *options: str | Path) -> dict[str, Any]:
        """The report of a cluster's file, a path below bench/traces without its suffix."""
        return self._run("traces", file, *options)

    def plan(self, file: str, *options: str | Path) -> dict[str, Any]:
        """What `./nearkv plan` makes of a cluster's file."""
        return self._run("plan", file, *options)

    def _run(self, program: str, file: str, *options: str | Path) -> dict[str, Any]:
        self._context.progress(" ".join([file, *map(str, options)]))
        tiny = ("--requests", "20") if self._context.tiny else ()
        cluster = _FOLDER / f"{file}.toml"
        words = (cluster, "--baselines", _BASELINES, *options, *tiny)
        return self._programs.run(program, *words)["results"]

    @property
    def tiny(self) -> bool:
        return self._context.tiny


def _chat(simulator: _Simulator) -> Iterator[Result]:
    report = simulator.run("clusters/chat")
    yield _speed(simulator, "chat", report)
    yield from _service("traces/chat", report)


def _speed(simulator: _Simulator, name: str, report: dict[str, Any]) -> Result:
    """The simulator's own: what a request costs goes with its tokens and with its blocks."""
    return Result(
        name=f"traces/speed/{name}",
        value=report["requests_per_cpu_minute"],
        unit="requests/min of CPU",
        goal=None if simulator.tiny else _SPEED,
        extra={"steps": report["steps"], "requests": report["requests"]},
    )


def _service(name: str, report: dict[str, Any]) -> Iterator[Result]:
    """What a user of a cluster sees, and what it costs."""
    moved = {place: figures for place, figures in report["moved"].items() if any(figures.values())}
    for key, unit in (("ttft_s", "s"), ("tpot_s", "s")):
        yield Result(
            name=f"{name}/{key.removesuffix('_s')}_p99",
            value=report[key]["p99"],
            unit=unit,
            device=_SIMULATED,
            extra={"p50": report[key]["p50"], "mean": report[key]["mean"]},
        )
    yield Result(
        name=f"{name}/goodput",
        value=report["goodput_per_s"],
        unit="requests/s",
        device=_SIMULATED,
        extra={
            "kept": report["kept"],
            "cached_share": report["cached_share"],
            "moved": moved,
            "dollars_per_million_tokens": report["dollars_per_million_tokens"],
        },
    )


def _policies(simulator: _Simulator) -> Iterator[Result]:
    """Each policy on the workload that it is made for, beside Sarathi's order of arrival."""
    for file, figure in (("agents", "ttft_s"), ("rag", "ttft_s"), ("rollout", "duration_s")):
        own = simulator.run(f"clusters/{file}")
        yield _speed(simulator, file, own)
        sarathi = simulator.run(f"clusters/{file}", "--policy", "sarathi")
        values = [
            report[figure] if figure == "duration_s" else report[figure]["mean"]
            for report in (own, sarathi)
        ]
        yield Result(
            name=f"traces/{file}/{own['policy']}/{figure.removesuffix('_s')}",
            value=values[0],
            unit="s",
            peer="sarathi",
            peer_value=values[1],
            device=_SIMULATED,
            extra={"cached_share": own["cached_share"]},
        )


def _near(simulator: _Simulator) -> Iterator[Result]:
    """Attention by our engine's cycles, beside pulling the KV over a link."""
    near, pulled = (simulator.run(f"clusters/{name}") for name in ("near", "pulled"))
    yield Result(
        name="traces/near/decode",
        value=_decode_rate(near),
        unit="tokens/s",
        peer="KV pulled over PCIe 5 x16",
        peer_value=_decode_rate(pulled),
        device=_SIMULATED,
        extra={"command": "ddr4/attend_dense", "engines": 32},
    )


def _plans(simulator: _Simulator) -> Iterator[Result]:
    """Goodput a GPU with prefill apart, beside replicas that do both, for two promises."""
    for name, tpot_s in (("chat", 0.1), ("fast", 0.02)):
        plan = simulator.plan("clusters/plan", "--tpot", str(tpot_s))
        apart, together = (plan[f"best_{how}"] for how in ("apart", "together"))
        if apart is None or together is None:
            continue  # Its progress has said which promise nothing keeps.
        yield Result(
            name=f"traces/plan/{name}/apart",
            value=apart["goodput_per_s_and_gpu"],
            unit="requests/s a GPU",
            peer=f"together: {together['layout']}",
            peer_value=together["goodput_per_s_and_gpu"],
            device=_SIMULATED,
            extra={"layout": apart["layout"], "promise": plan["promise"], "share": plan["share"]},
        )


def _replays(simulator: _Simulator, folder: Path | None) -> Iterator[Result]:
    traces = sorted(folder.glob("*.jsonl")) if folder else []
    if not traces:
        where = f"no *.jsonl in {folder}" if folder else "--traces DIR has them"
        raise Skipped(f"replay, which needs request traces; {where}")
    for trace in traces:
        report = simulator.run("clusters/pool", "--trace", trace)
        yield _speed(simulator, trace.stem, report)
        yield from _service(f"traces/replay/{trace.stem}", report)


def _published(
    simulator: _Simulator, name: str, claim: dict[str, Any], traces: Path | None
) -> Iterator[Result]:
    """A paper's figure beside the simulated one."""
    if claim["figure"] == "capacity_change":
        trace = traces / _CONVERSATION if traces else None
        if trace is None or not trace.exists():
            raise Skipped(f"{name}, which needs {_CONVERSATION}")
        value = _capacity_change(simulator, claim, trace)
    else:
        value = _figure(simulator, claim)
    yield Result(
        name=f"traces/published/{name}",
        value=value,
        unit=claim["unit"],
        peer="the paper",
        peer_value=claim["published"],
        device=_SIMULATED,
        extra={key: claim[key] for key in ("claim", "assumed", "why")},
    )


def _decode_rate(report: dict[str, Any]) -> float:
    """Tokens a second while all users of a closed workload of one round decode."""
    return report["requests"] / report["tpot_s"]["p50"]


def _figure(simulator: _Simulator, claim: dict[str, Any]) -> float:
    options = claim.get("options", ())
    peer, system = (
        simulator.run(f"published/{claim[side]}", *options) for side in ("peer", "system")
    )
    if claim["figure"] == "ttft_change":
        return 100 * (system["ttft_s"]["p50"] / peer["ttft_s"]["p50"] - 1)
    ratio = _decode_rate(system) / _decode_rate(peer)
    return ratio if claim["figure"] == "decode_ratio" else 100 * (ratio - 1)


def _capacity_change(simulator: _Simulator, claim: dict[str, Any], trace: Path) -> float:
    options = claim.get("options", ())
    peer, system = (
        _most_speed(simulator, f"published/{claim[side]}", trace, options)
        for side in ("peer", "system")
    )
    return 100 * (system / peer - 1)


def _most_speed(simulator: _Simulator, file: str, trace: Path, more: Sequence[str]) -> float:
    """How much faster a trace may come for its requests to be served as promised, to 3 %."""
    low, high = 0.25, 32.0
    while high / low > 1.03:
        speed = (low * high) ** 0.5
        options = ("--trace", trace, "--trace-speed", f"{speed:.4f}", *more)
        is_served = simulator.run(file, *options)["kept"] >= _KEPT
        low, high = (speed, high) if is_served else (low, speed)
    return low
