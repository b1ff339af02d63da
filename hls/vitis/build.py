#!/usr/bin/env python3
"""Synthesise the kernels with Vitis, link them for the platform, and print the report's table."""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from report import read_report, table

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_KERNELS = _HERE.parent / "kernels"
_PLATFORM = _HERE / "platform.cfg"


def kernels() -> dict[str, Path]:
    """Top functions, and the file that each stands in."""
    found = {}
    for file in sorted(_KERNELS.glob("*.cpp")):
        for name in re.findall(r'^extern "C" \w+ (nearkv_\w+)\(', file.read_text(), re.MULTILINE):
            found[name] = file
    return found


def configuration(name: str, file: Path) -> str:
    """What `v++ --mode hls` and `vitis-run --mode hls` read: the platform, and the kernel."""
    platform = _PLATFORM.read_text(encoding="utf-8")
    includes = f"-I{_HERE.parent} -I{_ROOT / 'rtl' / 'abi' / 'gen'}"
    platform = platform.replace("syn.cflags=", f"syn.cflags={includes} ")
    return f"{platform}syn.file={file}\nsyn.top={name}\npackage.output.file={name}.xo\n"


def main() -> int:
    known = kernels()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=_ROOT / "build" / "vitis", help="where to work")
    parser.add_argument(
        "--csim", action="store_true", help="only compile the kernels with vitis-run"
    )
    parser.add_argument(
        "--link", action="store_true", help="link the kernels to one xclbin as well"
    )
    parser.add_argument("--write", action="store_true", help="only write the configurations")
    parser.add_argument("kernel", nargs="*", help=f"of {', '.join(known)} (default: all)")
    arguments = parser.parse_args()
    wrong = [name for name in arguments.kernel if name not in known]
    if wrong:
        parser.error(f"no kernel {wrong[0]}; there are: {', '.join(known)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = arguments.kernel or list(known)
    for name in wanted:
        configured = configuration(name, known[name])
        (arguments.out / f"{name}.cfg").write_text(configured, encoding="utf-8")
    if arguments.write:
        print(f"{len(wanted)} configurations are in {arguments.out}")
        return 0
    tool = "vitis-run" if arguments.csim else "v++"
    if shutil.which(tool) is None:
        print(f"no {tool} here: source settings64.sh of Vitis 2023.2 or newer", file=sys.stderr)
        return 1
    for name in wanted:
        command = [tool, *(["--csim"] if arguments.csim else ["-c"]), "--mode", "hls"]
        command += ["--config", f"{name}.cfg", "--work_dir", name]
        subprocess.run(command, cwd=arguments.out, check=True)
    if arguments.csim:
        return 0
    reports = sorted(arguments.out.glob("nearkv_*/**/syn/report/csynth.xml"))
    print(table([read_report(path) for path in reports]))
    if arguments.link:
        objects = [f"{name}/{name}.xo" for name in wanted]
        command = ["v++", "-l", "--config", str(_PLATFORM), "-o", "nearkv.xclbin", *objects]
        subprocess.run(command, cwd=arguments.out, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
