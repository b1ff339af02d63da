"""A kernel: a module whose ports and arguments fit each other."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .failure import EmulationError
from .verilated import Module

_CLOCK = "ap_clk"
_RESET = "ap_rst_n"
_INTERRUPT = "interrupt"
_PAGE_BYTES = 4096
_MOST_REGISTER_BYTES = 1 << 24
_DATA_BITS = (32, 64, 128, 256, 512, 1024)
_CONTROL = [
    "awvalid",
    "awready",
    "awaddr",
    "wvalid",
    "wready",
    "wdata",
    "wstrb",
    "bvalid",
    "bready",
    "arvalid",
    "arready",
    "araddr",
    "rvalid",
    "rready",
    "rdata",
]
_READS = ["arvalid", "arready", "araddr", "rvalid", "rready", "rdata"]
_WRITES = ["awvalid", "awready", "awaddr", "wvalid", "wready", "wdata", "wstrb", "bvalid", "bready"]
_BYTES = {"char": 1, "short": 2, "int": 4, "float": 4, "long": 8, "double": 8, "half": 2}
_ARGUMENT = re.compile(r"(\w+):([^@:]+)@(0[xX][0-9a-fA-F]+|\d+)(?::(\w+))?")


@dataclass(frozen=True)
class Argument:
    """A scalar, or a buffer where it has the AXI4 master that uses it."""

    name: str
    type: str
    offset: int
    bytes: int
    port: str = ""


@dataclass(frozen=True)
class Kernel:
    """What the card must know of it."""

    name: str
    protocol: str
    control: str
    clock: str
    reset: str
    interrupt: str
    register_bytes: int
    masters: tuple[str, ...]
    arguments: tuple[Argument, ...]


def read_kernel(
    module: Module, xmls: Sequence[Path], arguments: Sequence[str], protocol: str | None
) -> Kernel:
    """Reads a kernel's arguments, and finds its ports in the module."""
    xml = next(
        (found for path in xmls if (found := _kernel_of(path, module.name)) is not None), None
    )
    if xml is None and xmls and not arguments:
        raise EmulationError(
            f"no kernel '{module.name}' in {', '.join(map(str, xmls))}: "
            "kernel and module have the same name"
        )
    if xml is not None:
        listed = tuple(_read_xml_argument(element) for element in _sorted_arguments(xml))
        protocol = protocol or xml.get("hwControlProtocol")
    else:
        listed = tuple(_parse_argument(text) for text in arguments)
    protocol = protocol or "ap_ctrl_hs"
    if _CLOCK not in module.ports:
        raise EmulationError(f"{module.name}: there is no clock {_CLOCK}. {_list_ports(module)}")
    masters = _masters(module)
    control = _control(module)
    _refuse_streams(module)
    address_bits = module.ports[f"{control}_araddr"].bits
    register_bytes = min(max(_PAGE_BYTES, 1 << address_bits), _MOST_REGISTER_BYTES)
    for argument in listed:
        if argument.offset + argument.bytes > register_bytes:
            raise EmulationError(
                f"{module.name}: argument {argument.name} lies outside the control registers, "
                f"which have {address_bits} bits of address"
            )
    return Kernel(
        name=module.name,
        protocol=protocol,
        control=control,
        clock=_CLOCK,
        reset=_RESET if _RESET in module.ports else "",
        interrupt=_INTERRUPT if _INTERRUPT in module.ports else "",
        register_bytes=register_bytes,
        masters=masters,
        arguments=tuple(_settle_port(module, argument, masters) for argument in listed),
    )


def _kernel_of(path: Path, name: str) -> ET.Element | None:
    try:
        root = ET.parse(path).getroot()
    except (OSError, ET.ParseError) as error:
        raise EmulationError(f"{path} cannot be read as XML: {error}") from error
    return next((kernel for kernel in root.iter("kernel") if kernel.get("name") == name), None)


def _sorted_arguments(xml: ET.Element) -> list[ET.Element]:
    return sorted(xml.iter("arg"), key=lambda element: int(element.get("id") or "0", 0))


def _read_xml_argument(element: ET.Element) -> Argument:
    name = element.get("name", "")
    qualifier = element.get("addressQualifier", "0")
    try:
        offset, size = int(element.attrib["offset"], 0), int(element.attrib["size"], 0)
    except (KeyError, ValueError) as error:
        raise EmulationError(f"argument {name}: offset and size are numbers") from error
    if qualifier == "4":
        raise EmulationError(f"argument {name} is a stream; AXI4-Stream is not emulated")
    is_buffer = qualifier == "1"
    port = element.get("port", "") if is_buffer else ""
    return Argument(name, element.get("type", "int"), offset, size, port)


def _parse_argument(text: str) -> Argument:
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise EmulationError(f"--arg: NAME:TYPE@OFFSET[:PORT], as n:int@0x28, not '{text}'")
    name, kind, offset, port = match.groups()
    if port or kind.endswith("*"):
        if not port:
            raise EmulationError(f"--arg {name}: a pointer needs the AXI4 master that uses it")
        return Argument(name, kind, int(offset, 0), 8, port)
    word = kind.removeprefix("unsigned ").removeprefix("u")
    known = re.fullmatch(r"int(8|16|32|64)_t", word)
    size = int(known[1]) // 8 if known else _BYTES.get(word)
    if size is None:
        raise EmulationError(
            f"--arg {name}: no type '{kind}'; there are {', '.join(_BYTES)}, uint32_t"
        )
    return Argument(name, kind, int(offset, 0), max(4, size))


def _prefixes(module: Module, start: str, *, driven: bool) -> list[str]:
    """Of groups of ports that have a channel of addresses, and drive it or not."""
    found = []
    for name, port in module.ports.items():
        for end in ("_arvalid", "_awvalid"):
            prefix = name.removesuffix(end)
            is_one = name.endswith(end) and name.startswith(start) and port.is_input != driven
            if is_one and prefix not in found:
                found.append(prefix)
    return found


def _masters(module: Module) -> tuple[str, ...]:
    masters = tuple(_prefixes(module, "", driven=True))
    for prefix in masters:
        for first, names in (("arvalid", _READS), ("awvalid", _WRITES)):
            if f"{prefix}_{first}" in module.ports:
                _check_group(module, prefix, names, "an AXI4 master")
        for name in ("rdata", "wdata"):
            port = module.ports.get(f"{prefix}_{name}")
            if port is not None and port.bits not in _DATA_BITS:
                raise EmulationError(
                    f"{module.name}: {port.name} has {port.bits} bits, not "
                    "32 to 1024 in powers of two"
                )
    return masters


def _control(module: Module) -> str:
    slaves = _prefixes(module, "", driven=False)
    if len(slaves) != 1:
        raise EmulationError(
            f"{module.name}: a kernel has one AXI4-Lite slave, s_axi_control_*; this module has "
            f"{', '.join(slaves) if slaves else 'none. ' + _list_ports(module)}"
        )
    _check_group(module, slaves[0], _CONTROL, "the AXI4-Lite slave")
    if module.ports[f"{slaves[0]}_wdata"].bits != 32:
        raise EmulationError(f"{module.name}: {slaves[0]}_wdata has to have 32 bits")
    return slaves[0]


def _check_group(module: Module, prefix: str, names: Sequence[str], what: str) -> None:
    absent = [f"{prefix}_{name}" for name in names if f"{prefix}_{name}" not in module.ports]
    if absent:
        raise EmulationError(
            f"{module.name}: {prefix} is {what}, and lacks the ports {', '.join(absent)}"
        )


def _refuse_streams(module: Module) -> None:
    streams = [name for name in module.ports if name.endswith("_tvalid")]
    if streams:
        raise EmulationError(
            f"{module.name}: {streams[0]} is of AXI4-Stream, which is not emulated"
        )


def _settle_port(module: Module, argument: Argument, masters: Sequence[str]) -> Argument:
    """With the port's name as the module has it: kernel.xml often has it in capitals."""
    if not argument.port:
        return argument
    for master in masters:
        if master.lower() == argument.port.lower():
            return Argument(argument.name, argument.type, argument.offset, argument.bytes, master)
    raise EmulationError(
        f"{module.name}: argument {argument.name} uses {argument.port}, and there is no port "
        f"{argument.port}_arvalid or _awvalid; AXI4 masters here: {', '.join(masters) or 'none'}"
    )


def _list_ports(module: Module) -> str:
    return f"Its ports: {', '.join(module.ports) or 'none'}"
