"""The command line of `./nearkv xrt-emu`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nearkv.usage import exit_if_usage_is_all

from .build import Toolchain, build_simulator, write_package
from .card import Card, Wish, describe_card
from .failure import EmulationError
from .kernel import Kernel, read_kernel
from .verilated import Options, verilate

_DESCRIPTION = """\
Makes an emulated card of RTL kernels, for XRT's hardware emulation, without a
vendor's tools: Verilator compiles the kernels, and an xclbin holds the simulator
that XRT starts when an application loads it. The application is not changed.

A kernel is a module with an AXI4-Lite slave for control and AXI4 masters for
memory, named as in Vitis: ap_clk, ap_rst_n, s_axi_control_*, m_axi_*. Its
arguments stand in the kernel.xml that Vitis' package_xo takes, or in --arg."""

_EPILOG = """\
examples:
  ./nearkv xrt-emu --top vadd.sv --kernel-xml kernel.xml
  source vadd.emu/env.sh && ./my_xrt_app vadd.emu/vadd.xclbin

  ./nearkv xrt-emu --top scale.sv \\
      --arg 'in:int*@0x10:m_axi_gmem' --arg 'out:int*@0x1c:m_axi_gmem' --arg 'n:int@0x28'
  ./nearkv xrt-emu --top vadd.sv --kernel-xml kernel.xml --nk vadd:2 \\
      --bank 'DDR[0]=4GiB' --bank 'DDR[1]=4GiB' --sp 'vadd_2.a:DDR[1]'
  ./nearkv xrt-emu --top vadd.sv --kernel-xml kernel.xml --waves
  NEARKV_XRT_WAVES=. ./my_xrt_app vadd.emu/vadd.xclbin && gtkwave vadd_1.fst

With --bank 'HOST[0]=1GiB' and --sp to it kernels use host-only buffers.

exit status: 0 made; 1 it cannot be made; 2 wrong usage; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes an emulated card."""
    parser = _make_parser()
    parsed = parser.parse_args(arguments)
    if parsed.arg and len(parsed.top) != 1:
        parser.error("--arg is for one kernel; several have a --kernel-xml each")
    exit_if_usage_is_all()
    try:
        _make(parsed)
    except EmulationError as error:
        print(f"nearkv: xrt-emu: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./nearkv xrt-emu",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--top",
        action="append",
        required=True,
        metavar="FILE[:MODULE]",
        help="source of a kernel; its module is named as the file unless given (repeatable)",
    )
    sources = parser.add_argument_group("sources")
    sources.add_argument(
        "--source", action="append", default=[], type=Path, help="more of them, packages first"
    )
    sources.add_argument("-I", dest="include", action="append", default=[], metavar="FOLDER")
    sources.add_argument("-D", dest="define", action="append", default=[], metavar="NAME[=VALUE]")
    sources.add_argument(
        "-G", dest="parameter", action="append", default=[], metavar="NAME=VALUE", help="of tops"
    )
    kernels = parser.add_argument_group("kernels")
    kernels.add_argument(
        "--kernel-xml",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="arguments of the kernel whose name it has (repeatable)",
    )
    kernels.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME:TYPE@OFFSET[:PORT]",
        help="an argument; with the AXI4 master that uses it, a buffer (repeatable, in order)",
    )
    kernels.add_argument(
        "--protocol",
        choices=("ap_ctrl_hs", "ap_ctrl_chain", "ap_ctrl_none"),
        help="of kernels (default: what kernel.xml says, else ap_ctrl_hs)",
    )
    card = parser.add_argument_group("card")
    card.add_argument(
        "--nk", action="append", default=[], metavar="KERNEL:N", help="compute units (default 1)"
    )
    card.add_argument(
        "--bank",
        action="append",
        default=[],
        metavar="TAG=SIZE",
        help="of memory, in order of addresses (default: DDR[0]=16GiB)",
    )
    card.add_argument(
        "--sp",
        action="append",
        default=[],
        metavar="UNIT.ARGUMENT:TAG",
        help="bank of an argument (default: the first)",
    )
    card.add_argument(
        "--memory-latency", type=int, default=40, metavar="CYCLES", help="of memory (default 40)"
    )
    parser.add_argument("--waves", action="store_true", help="let the simulator write waves")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="(default: MODULE.emu)")
    return parser


def _make(parsed: argparse.Namespace) -> None:
    toolchain = Toolchain.find()
    tops = [_split_top(text) for text in parsed.top]
    output = parsed.output or Path(f"{tops[0][1]}.emu")
    options = Options(
        sources=parsed.source,
        include=parsed.include,
        define=parsed.define,
        parameter=parsed.parameter,
        waves=parsed.waves,
    )
    objects = output.resolve() / "build"
    modules = [verilate(source, module, options, objects) for source, module in tops]
    kernels: list[Kernel] = [
        read_kernel(module, parsed.kernel_xml, parsed.arg, parsed.protocol) for module in modules
    ]
    card: Card = describe_card(
        kernels,
        Wish(parsed.nk, parsed.bank, parsed.sp, parsed.memory_latency),
    )
    simulator = build_simulator(toolchain, modules, kernels, objects)
    xclbin = write_package(toolchain, card, simulator, tops[0][1], output)
    print(f"{xclbin} is ready:\n  source {output}/env.sh && YOUR_APPLICATION {xclbin}")


def _split_top(text: str) -> tuple[Path, str]:
    name, _, module = text.partition(":")
    source = Path(name)
    if not source.is_file():
        raise EmulationError(f"--top: there is no file {source}")
    return source, module or source.stem


if __name__ == "__main__":
    sys.exit(main())
