"""The command line of `./nearkv vm`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress

from nearkv.usage import exit_if_usage_is_all

from .packages import PackageError
from .topology import DEVICE_GRAIN_BYTES, Topology

_DESCRIPTION = """\
Boots a Linux guest under QEMU that sees CXL Type-3 modules and, on the first, a
card: its driver, the standard tools cxl and daxctl, and this build's `nearkv`.
Without a COMMAND it gives the guest's shell to the terminal; Ctrl-] ends the
guest. QEMU, kernel and programs are Debian's packages, fetched once and unpacked
below build/vm without root."""

_EPILOG = """\
examples:
  ./nearkv vm                               a shell; then, for example:
      cxl list -M
      cxl create-region -m -d decoder0.0 -t ram -w 1 mem0
      daxctl reconfigure-device --mode=devdax -f dax0.0
      nearkv serve --pool /dev/dax0.0 --socket /tmp/nearkv.sock
  ./nearkv vm --card 'nearkv card list'     with the card set up: /dev/nearkv0
  ./nearkv vm 'cxl list -vvv'               one command, and its exit status
  ./nearkv vm --dax 'ls -l /dev/dax0.0'     with a region made of all devices
  ./nearkv vm --test                        the guest's tests
  ./nearkv vm --debug-kernel --card dmesg   on a kernel that checks itself: built
                                            once, in 5 to 20 minutes

NEARKV_DEBIAN_MIRROR names a mirror of Debian on systems whose apt sources do not.
Speeds in the guest are those of an emulated processor and say nothing of a card.

exit status: the command's; 0 the shell ended, or all tests passed; 1 the guest
failed; 2 wrong usage; 3 packages cannot be had; 130 interrupted."""

_MOST_GUESTS = 4  # Of the tests at a time: each takes 1 to 3 GiB.
_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def main(arguments: Sequence[str] | None = None) -> int:
    """Boots a guest and does in it what was asked for."""
    parser = argparse.ArgumentParser(
        prog="./nearkv vm",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--test", action="store_true", help="run the tests of the guest")
    parser.add_argument("--devices", type=int, default=1, help="CXL devices (default 1)")
    parser.add_argument("--bridges", type=int, default=1, help="host bridges (default 1)")
    parser.add_argument("--memory", type=_size, default="256MiB", help="of a device (256MiB)")
    parser.add_argument(
        "--dynamic", type=_size, default=0, help="of the first device: dynamic capacity (none)"
    )
    parser.add_argument("--processors", type=int, default=2, help="of the guest (default 2)")
    parser.add_argument(
        "--engine", default="model:", help="of the first device: model:, rtl:, none"
    )
    parser.add_argument(
        "--debug-kernel", action="store_true", help="boot a kernel with KASAN and lockdep"
    )
    setups = parser.add_mutually_exclusive_group()
    setups.add_argument("--dax", action="store_true", help="make a region of all devices first")
    setups.add_argument("--card", action="store_true", help="give the card its memory first")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="for the guest's shell")
    parsed = parser.parse_args(arguments)
    if not 1 <= parsed.bridges <= parsed.devices <= 4:
        parser.error("1 to 4 devices, and no more bridges than devices")
    if parsed.dynamic > parsed.memory:
        parser.error("--dynamic: the device has not so much memory")
    exit_if_usage_is_all()
    # What set-up installs: the manual is printed without it.
    import pexpect
    import pytest

    from .function import FunctionError
    from .machine import GuestError
    from .platform import ROOT, Platform

    def report(line: str) -> None:
        print(f"nearkv: {line}", file=sys.stderr, flush=True)

    if parsed.test:
        # What is fetched and built once is in no test's time; without it they say why they skip.
        with suppress(PackageError, OSError):
            Platform(report, debugs=parsed.debug_kernel)
        words = ["--debug-kernel"] if parsed.debug_kernel else []
        # One guest does not keep two cores busy.
        guests = min(int(os.environ.get("NEARKV_JOBS") or os.cpu_count() or 1), _MOST_GUESTS)
        words += ["-n", str(guests), "--dist", "loadfile", "--no-loadscope-reorder"]
        words += ["--verbose", "--durations=10", str(ROOT / "tests" / "guest")]
        return int(pytest.main(words))
    engine = "" if parsed.engine == "none" else parsed.engine
    topology = Topology(parsed.devices, parsed.bridges, parsed.memory, engine, parsed.dynamic)
    try:
        platform = Platform(report, debugs=parsed.debug_kernel)
        with platform.boot(topology, processors=parsed.processors) as guest:
            print(f"nearkv: booted in {guest.boot_s:.1f} s", file=sys.stderr, flush=True)
            if parsed.dax:
                guest.make_dax()
            if parsed.card:
                guest.make_card()
            if not parsed.command:
                guest.interact()
                return 0
            status, text = guest.run(" ".join(parsed.command), timeout_s=3600)
            print(text)
            return status
    except PackageError as error:
        print(f"nearkv: {error}", file=sys.stderr)
        return 3
    except (FunctionError, GuestError, pexpect.ExceptionPexpect) as error:
        print(f"nearkv: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)(MiB|GiB)", text)
    size_bytes = int(found[1]) * _UNITS[found[2]] if found else 0
    if size_bytes == 0 or size_bytes % DEVICE_GRAIN_BYTES:
        raise argparse.ArgumentTypeError(f"not a multiple of 256MiB such as 1GiB: '{text}'")
    return size_bytes


if __name__ == "__main__":
    sys.exit(main())
