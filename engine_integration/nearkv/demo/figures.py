"""The comparison's figures: one summary, and the rows of the result schema."""

from collections.abc import Iterator, Sequence
from typing import Any

from nearkv.demo.prompt import Needle
from nearkv.demo.runs import STAGES, Comparison, Run
from nearkv.results import Goal, Result, Samples, align_rows


def summarise(comparison: Comparison, texts: dict[str, str], needle: Needle) -> dict[str, Any]:
    """The keys beside the rows; the figures are those of the first near run."""
    run, plain = comparison.near[0], comparison.plain
    full_bytes = comparison.full_scan_bytes(run)
    return {
        "mode": run.name,
        "tokens_equal": run.tokens == plain.tokens,
        "needle_found": needle.answered_by(texts[run.name]),
        "link_bytes_per_token": comparison.link_bytes_per_token(run),
        "link_bytes_per_token_baseline": full_bytes,
        "near_bytes_per_token": run.per_token(*STAGES),
        "full_scan_bytes_per_token": full_bytes,
        "compression_ratio": comparison.compression_ratio,
        "tokens_per_s": rate(run).median,
        "tokens_per_s_plain": rate(plain).median,
        "needle": needle.line,
        "texts": texts,
    }


def rate(run: Run) -> Samples:
    """Tokens per second, a reading for each token."""
    return Samples(tuple(run.seconds)).per_second(1)


def make_results(
    comparison: Comparison, texts: dict[str, str], needle: Needle, device: str
) -> list[Result]:
    """The rows, in the order of the summary, every mode."""
    return list(_rows(comparison, texts, needle, device))


def _rows(
    comparison: Comparison, texts: dict[str, str], needle: Needle, device: str
) -> Iterator[Result]:
    plain = comparison.plain
    for run in comparison.near:
        exact = run.name == "dense"
        full_bytes = comparison.full_scan_bytes(run)
        moved = {"peer": "moving K and V to the host", "peer_value": full_bytes}
        scanned = {"peer": "reading all K and V in bf16", "peer_value": full_bytes}

        def row(what: str, value: float, unit: str, mode: str = run.name, **rest: Any) -> Result:
            return Result(name=f"demo/{what}_{mode}", value=value, unit=unit, device=device, **rest)

        # The other modes promise no token for token, so they have no goal.
        wanted = Goal("==", 1) if exact else None
        found = needle.answered_by(texts[run.name])
        yield row("tokens_equal", float(run.tokens == plain.tokens), "yes=1", goal=wanted)
        yield row("needle_found", float(found), "yes=1", goal=wanted)
        link_bytes = comparison.link_bytes_per_token(run)
        yield row("link_bytes", link_bytes, "bytes/token", **moved)
        stages = {stage: run.per_token(stage) for stage in STAGES}
        near_bytes = run.per_token(*STAGES)
        yield row("near_bytes", near_bytes, "bytes/token", extra=stages, **scanned)
        yield Result.of_samples(
            f"demo/decode_{run.name}",
            rate(run),
            "tokens/s",
            beside=rate(plain),
            peer="transformers, sdpa",
            device=device,
        )
    ratio = comparison.compression_ratio
    yield Result(name="demo/compression", value=ratio, unit="bf16 bytes/byte", device=device)


def format_summary(summary: dict[str, Any], comparison: Comparison, device: str) -> str:
    """What the demo prints."""
    texts: dict[str, str] = summary["texts"]
    width = max(map(len, texts))
    lines = [f"needle planted: {summary['needle']}", "", "generated after the question:"]
    lines += [f"  {name:<{width}}  {text.splitlines()!r}" for name, text in texts.items()]
    yes = {True: "yes", False: "NO"}
    per_token = (
        ("over the link", "link_bytes_per_token", "link_bytes_per_token_baseline", "moving K/V"),
        ("read near data", "near_bytes_per_token", "full_scan_bytes_per_token", "a full scan"),
    )
    lines += [
        "",
        f"mode {summary['mode']}, device {device}",
        f"  same tokens as the plain run: {yes[summary['tokens_equal']]}",
        f"  needle found:                 {yes[summary['needle_found']]}",
    ]
    for label, key, peer_key, peer in per_token:
        value, beside = summary[key], summary[peer_key]
        lines.append(
            f"  {label + ':':<16}{value:>14,.0f} bytes/token; {peer}: {beside:,.0f} "
            f"({beside / value:,.1f} times as much)"
        )
    lines += [
        f"  compression:    {summary['compression_ratio']:>14.2f} (bf16 bytes over page bytes)",
        f"  decoding:       {summary['tokens_per_s']:>14.2f} tokens/s; "
        f"plain: {summary['tokens_per_s_plain']:.2f}",
    ]
    lines += ["", *_mode_table(comparison, texts)]
    return "\n".join(lines)


def _mode_table(comparison: Comparison, texts: dict[str, str]) -> Sequence[str]:
    heads = ("mode", "tokens as plain", "link B/token", *(f"{s} B/token" for s in STAGES), "tok/s")
    rows = [heads]
    for run in comparison.near:
        same = sum(a == b for a, b in zip(run.tokens, comparison.plain.tokens, strict=True))
        stages = (f"{run.per_token(stage):,.0f}" for stage in STAGES)
        link = f"{comparison.link_bytes_per_token(run):,.0f}"
        share = f"{same}/{len(run.tokens)}"
        rows.append((run.name, share, link, *stages, f"{rate(run).median:.2f}"))
    return align_rows(rows)
