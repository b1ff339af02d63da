#!/usr/bin/env python3
"""Writes the outputs of the device contract, or checks that they are up to date.

    gen.py           read nearkv.toml, write gen/
    gen.py --check   change nothing; exit with 1 if gen/ is not what nearkv.toml says

Exit status 2 means that the contract itself is wrong; each line says what and where.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from generator import (
    c_header,
    card_header,
    py_constants,
    sv_csr,
    sv_firmware_package,
    sv_package,
)
from generator.load import load
from generator.model import DEVICE, FIRMWARE, HOST, Contract, ContractError
from generator.validate import validate

HERE = Path(__file__).resolve().parent
OUTPUTS: dict[str, Callable[[Contract], str]] = {
    "nkv_abi.h": lambda contract: c_header.emit(contract.part(DEVICE, HOST)),
    "nkv_card.h": card_header.emit,
    "nkv_abi_pkg.sv": lambda contract: sv_package.emit(contract.part(DEVICE)),
    "nkv_firmware_pkg.sv": lambda contract: sv_firmware_package.emit(contract.part(FIRMWARE)),
    "nkv_csr.sv": sv_csr.emit,
    "nkv_abi.py": py_constants.emit,
}


def outputs(contract_path: Path) -> dict[str, str]:
    """The text of each output file of the contract; raises ContractError if it is wrong."""
    contract = load(contract_path)
    validate(contract)
    return {name: emit(contract) for name, emit in OUTPUTS.items()}


def stale_files(texts: dict[str, str], folder: Path) -> list[str]:
    """One line for each file in the folder that is missing, differs or should not be there."""
    stale = []
    for name, text in texts.items():
        path = folder / name
        if not path.exists():
            stale.append(f"{name} is missing")
        elif path.read_text(encoding="utf-8") != text:
            stale.append(f"{name} is not what the contract says")
    extra = sorted(path.name for path in folder.glob("*") if path.is_file())
    stale += [f"{name} is not an output; remove it" for name in extra if name not in texts]
    return stale


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument(
        "--contract", type=Path, default=HERE / "nearkv.toml", help="another contract to read"
    )
    parser.add_argument("--out", type=Path, default=HERE / "gen", help="another output folder")
    options = parser.parse_args(arguments)
    try:
        texts = outputs(options.contract)
    except ContractError as error:
        print(f"{options.contract.name} is wrong:\n{error}", file=sys.stderr)
        return 2
    if options.check:
        stale = stale_files(texts, options.out)
        for line in stale:
            print(f"{options.out.name}/{line}", file=sys.stderr)
        if stale:
            print("Run `python3 rtl/abi/gen.py` and commit the result.", file=sys.stderr)
        return 1 if stale else 0
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = options.out / name
        # What has not changed keeps its time, and nothing is built anew for it.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
