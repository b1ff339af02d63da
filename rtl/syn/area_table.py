"""AREA.md: the committed figures beside the targets and the published cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flow import Table, Targets

_HEAD = """\
# Area, depth and timing

Written by `synthesise.py` from `bench/baselines/area.json`; measured {date} with {tools}.

**xcup**: `synth_xilinx -family xcup`, module by module, then flattened. Upper bounds: no
dual-output LUTs, no ternary adders, nothing optimised across modules. *LUT* includes the LUTs of
memories (*of them RAM*). *levels* and *chains* are LUT levels and carry chains of the deepest paths
between registers or ports; *beyond* counts registers that a path of more than {levels} levels or
{chains} chain reaches. `synthesise.py --paths BLOCK` tells which, and where the LUTs are.
**ECP5**: placed and routed on an LFE5U-85F, speed 8, out of context, by nextpnr: a trend, not a
promise for larger parts.
"""


def line(name: str, family: str, figures: dict[str, Any]) -> str:
    """One measured block, for who waits."""
    if "error" in figures:
        return f"{name} {family}: FAILED: {figures['error']}"
    area = ", ".join(f"{amount:g} {what}" for what, amount in figures["area"].items() if amount)
    if family == "ecp5":
        told = f"{_mhz(figures)} MHz" if figures["mhz"] else "no clock"
    else:
        told = (
            f"{figures['deepest']['levels']} levels, {figures['most_chains']['chains']} chains, "
            f"{figures['beyond']} beyond"
        )
    return f"{name} {family}: {area}; {told}; {figures['seconds']} s"


def paths(figures: dict[str, Any]) -> Iterator[str]:
    """Parts of 100 LUTs or more, then the paths beyond the limits, deepest first."""
    for part, area in figures.get("parts", {}).items():
        lut = area["lut"] + area["lut_ram"]
        if lut >= 100 or area["dsp"]:
            yield (
                f"  {part or '(its own)'}: {lut:g} LUT, {area['lut_ram']:g} of them RAM, "
                f"{area['ff']:g} FF, {area['dsp']:g} DSP"
            )
    for path in figures.get("worst", []):
        yield (
            f"  {path['levels']} levels, {path['chains']} chains: {path['start']} -> {path['end']}"
        )


def page(committed: dict[str, Any], table: Table) -> str:
    """The text of AREA.md."""
    tools = ", ".join(f"{tool} {version}" for tool, version in committed["tools"].items())
    targets = table.targets
    head = _HEAD.format(
        date=committed["date"], tools=tools, levels=targets.levels, chains=targets.chains
    )
    blocks = committed["blocks"]
    inside = [name for name, block in table.blocks.items() if block.count]
    apart = [name for name, block in table.blocks.items() if not block.count]
    sections = [
        head,
        _slice(blocks, table),
        "## Blocks of a slice\n\n" + _blocks(inside, blocks, table),
        "## Their parts; codecs, ingest and monitors\n\n" + _blocks(apart, blocks, table),
        "## Beside published cores\n\n" + _published(blocks, table),
    ]
    return "\n".join(sections)


def slice_sum(blocks: dict[str, Any], table: Table) -> tuple[dict[str, float], list[str]]:
    """What one slice takes, and the blocks of it that have no figures."""
    total: dict[str, float] = {}
    missing = []
    for name, block in table.blocks.items():
        if not block.count:
            continue
        if "xcup" not in blocks.get(name, {}):
            missing.append(name)
            continue
        for what, amount in blocks[name]["xcup"]["area"].items():
            total[what] = total.get(what, 0) + block.count * amount
    return total, missing


def _slice(blocks: dict[str, Any], table: Table) -> str:
    total, missing = slice_sum(blocks, table)
    if not total:
        return ""
    lut = total["lut"] + total["lut_ram"]
    rows = [
        ("LUT", lut, table.targets.slice_lut),
        ("of them RAM", total["lut_ram"], None),
        ("FF", total["ff"], None),
        ("DSP48E2", total["dsp"], table.targets.slice_dsp),
        ("BRAM36", total["bram36"], None),
        ("URAM", total["uram"], None),
    ]
    text = "## One slice, G = 8, codecs apart\n\n"
    text += "The sum of its blocks, which leaves out the few LUTs that join them.\n\n"
    text += _markdown(
        ("", "measured", "target", ""),
        (
            (
                what,
                _number(amount),
                _number(target) if target else "",
                _verdict(amount, target, bool(missing)),
            )
            for what, amount, target in rows
        ),
    )
    if missing:
        text += f"\nWithout {', '.join(missing)}, which have no figures.\n"
    return text


def _verdict(amount: float, target: int | None, incomplete: bool) -> str:
    if target is None:
        return ""
    if amount > target:
        return "MISSED"
    return "incomplete" if incomplete else "met"


def _blocks(names: Iterable[str], blocks: dict[str, Any], table: Table) -> str:
    rows = []
    for name in names:
        xcup, ecp5 = blocks.get(name, {}).get("xcup"), blocks.get(name, {}).get("ecp5")
        if not xcup and not ecp5:
            continue
        row = [name]
        if xcup:
            area = xcup["area"]
            amounts = (area["lut"] + area["lut_ram"], area["lut_ram"], area["ff"], area["dsp"])
            row += [_number(amount) for amount in amounts]
            row += [f"{area['bram36']:g}" if area["bram36"] else ""]
            row += _depth(xcup, table.targets)
        else:
            row += [""] * 8
        row += [_number(ecp5["area"]["lut4"]), _mhz(ecp5)] if ecp5 else ["", ""]
        rows.append(row)
    heads = ("block", "LUT", "of them RAM", "FF", "DSP", "BRAM36", "levels", "chains", "beyond")
    return _markdown((*heads, "ECP5 LUT4", "MHz"), rows)


def _mhz(figures: dict[str, Any]) -> str:
    return f"{figures['mhz']:.0f}" if figures["mhz"] else "no clock"


def _depth(figures: dict[str, Any], targets: Targets) -> list[str]:
    levels, chains = figures["deepest"]["levels"], figures["most_chains"]["chains"]
    return [
        f"{levels} MISSED" if levels > targets.levels else str(levels),
        f"{chains} MISSED" if chains > targets.chains else str(chains),
        _number(figures["beyond"]),
    ]


def _published(blocks: dict[str, Any], table: Table) -> str:
    rows = []
    for core in table.published:
        ours = blocks.get(core["beside"], {}).get("xcup")
        if ours:
            area = ours["area"]
            told = f"{core['beside']}: {_number(area['lut'] + area['lut_ram'])} LUT, "
            told += f"{_number(area['ff'])} FF, {area['bram36']:g} BRAM36"
        else:
            told = ""
        amounts = (_number(core.get(key, 0)) for key in ("lut", "ff", "bram36", "uram", "mhz"))
        rows.append((core["core"], core["device"], *amounts, core["rate"], told))
    heads = ("core", "device", "LUT", "FF", "BRAM36", "URAM", "MHz", "rate", "ours (xcup)")
    return _markdown(heads, rows)


def _number(amount: float | None) -> str:
    return f"{amount:,g}" if amount and amount < 1e5 else f"{int(amount):,}" if amount else ""


def _markdown(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
