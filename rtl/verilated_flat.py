"""Writes a module around another whose structs C++ sees field by field: verilated_flat.py XML FILE.

XML is what `verilator --xml-only` says of the inner module. FILE becomes the outer one, under its
name. A port `beat_o` with a field `data` becomes `beat_data_o`, and so on for fields of fields.
Packed arrays become unpacked ones, and so do several bits of a handshake (`*_valid`, `*_ready`).
Structs of nkv_abi_pkg stay whole, for nkv_abi.h has the same ones, but for those of registers.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, parse

_WHOLE = re.compile("nkv_abi_pkg::(?!csr_)")


class Design:
    """What Verilator knows of a module and of the types of its ports."""

    def __init__(self, xml: Path) -> None:
        root = parse(xml).getroot()
        self.top = next(module for module in root.iter("module") if module.get("topModule"))
        self.types = {node.get("id"): node for table in root.iter("typetable") for node in table}
        self.types["bit"] = Element("basicdtype")
        for node in self.types.values():
            if ends := [
                int(end.get("name").split("h")[1], 16) for end in node.iterfind("range/const")
            ]:
                node.set("count", str(abs(ends[0] - ends[1]) + 1))

    def type_of(self, node: Element, attribute: str = "sub_dtype_id") -> Element:
        """The type that a port, a field or another type is of, behind all its names."""
        found = self.types[node.get(attribute)]
        return self.type_of(found) if found.tag in ("refdtype", "paramtypedtype") else found

    def fields(self, node: Element) -> list[Element]:
        """Of a struct that is taken apart; none of anything else."""
        return [] if _WHOLE.match(node.get("name", "")) else node.findall("memberdtype")

    def width(self, node: Element) -> int:
        """Bits of a packed type."""
        if node.tag == "basicdtype":
            return int(node.get("left", 0)) + 1
        if node.tag == "structdtype":
            return sum(self.width(self.type_of(field)) for field in node)
        return int(node.get("count", 1)) * self.width(self.type_of(node))

    def ports(
        self, node: Element, name: str = "", counts: str = ""
    ) -> Iterator[tuple[str, str, int]]:
        """Yields the ports that a type becomes: names of fields, how many there are, and bits."""
        if fields := self.fields(node):
            for field in fields:
                yield from self.ports(self.type_of(field), f"{name}_{field.get('name')}", counts)
        elif node.tag.endswith("arraydtype"):
            yield from self.ports(self.type_of(node), name, f"{counts}[{node.get('count')}]")
        else:
            yield name, counts, self.width(node)

    def joined(self, node: Element, name: str, end: str, index: str = "") -> str:
        """The value of a type, made of the ports that it becomes."""
        if fields := self.fields(node):
            parts = [
                self.joined(self.type_of(field), f"{name}_{field.get('name')}", end, index)
                for field in fields
            ]
        elif node.tag == "packarraydtype":
            parts = [
                self.joined(self.type_of(node), name, end, f"{index}[{i}]")
                for i in reversed(range(int(node.get("count"))))
            ]
        else:
            return name + end + index
        return f"{{{', '.join(parts)}}}"


def flat(design: Design, name: str) -> str:
    """The text of the module of this name."""
    inner = design.top.get("name")
    ports, pins, values = [], [], []
    for port in design.top.iterfind("var"):
        own, direction = port.get("name", ""), port.get("dir")
        if port.get("param"):
            values.append(f"    .{own}({port.find('const').get('name')})")
        if not direction:
            continue
        stem, end = own[:-2], own[-2:]
        kind = design.type_of(port, "dtype_id")
        if stem.endswith(("_valid", "_ready")) and kind.get("left"):
            bits = {"sub_dtype_id": "bit", "count": str(design.width(kind))}
            kind = Element("packarraydtype", bits)
        for path, counts, width in design.ports(kind):
            ports.append(f"  {direction} logic [{width - 1}:0] {stem}{path}{end}{counts}")
        pins.append(f"    .{own}({design.joined(kind, stem, end)})")
    listed = [",\n".join(lines) for lines in (ports, values, pins)]
    return (
        f"module {name} (\n{listed[0]}\n);\n"
        f"  {inner} #(\n{listed[1]}\n  ) u_{inner} (\n{listed[2]}\n  );\nendmodule\n"
    )


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.write_text(flat(Design(Path(sys.argv[1])), target.stem), encoding="utf-8")
