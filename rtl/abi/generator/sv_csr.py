"""The SystemVerilog CSR block: address decode, read multiplexer and the registers themselves."""

from __future__ import annotations

from .model import REGISTER_BITS, Contract, Register, RegisterField
from .text import BANNER, WIDTH, pascal

PORTS = f"""// {BANNER}
//
// The device's registers behind a 64-bit bus without wait states.
//
// An access takes one cycle: `req_i` with `addr_i` (a byte offset in the register map) and, to
// write, `we_i` and `wdata_i`. The next cycle has the answer, which stays until that of the next
// access: `error_o` if there is no register at this very offset, else `rdata_o` for a read.
// Writes to read-only registers and to bits without a field change nothing and are no error.
//
// External registers are kept by others, who see the same accesses: `external_rdata_i` has their
// answer a cycle after the access, and keeps it.

module nkv_csr
  import nkv_abi_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,

  input  logic        req_i,
  input  logic        we_i,
  input  logic [31:0] addr_i,
  input  logic [63:0] wdata_i,
  output logic [63:0] rdata_o,
  output logic        error_o,

  output csr_reg2hw_t reg2hw_o,
  input  csr_hw2reg_t hw2reg_i,
  input  logic [63:0] external_rdata_i
);
"""

RESPONSE = """
  logic [63:0] rdata_q;
  logic external_q;
  assign rdata_o = external_q ? external_rdata_i : rdata_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      rdata_q <= '0;
      external_q <= 1'b0;
      error_o <= 1'b0;
    end else if (req_i) begin
      rdata_q <= we_i ? '0 : rdata;
      external_q <= external && !we_i;
      error_o <= !known;
    end
  end

  assign reg2hw_o = regs_q;

endmodule
"""


def emit(contract: Contract) -> str:
    """The text of nkv_csr.sv."""
    lines = [*_decode_lines(contract), *_read_lines(contract), *_write_lines(contract)]
    return PORTS + "\n".join(lines) + "\n" + RESPONSE


def _blocks(contract: Contract) -> list[Register]:
    """One array register for each block of registers that repeats, one of the CSR block if any."""
    blocks: dict[int, Register] = {}
    for register in contract.registers:
        if register.is_array:
            start = register.offset // register.span * register.span
            if start not in blocks or (blocks[start].is_external and not register.is_external):
                blocks[start] = register
    return list(blocks.values())


def _decode_lines(contract: Contract) -> list[str]:
    blocks = _blocks(contract)
    own = (block.count.value.bit_length() - 1 for block in blocks if not block.is_external)
    index_bits = max(own, default=1)
    lines = [
        "",
        "  csr_reg2hw_t regs_q;",
        "",
        "  // An address in a block that repeats is the offset of its first copy and an index.",
        "  logic [31:0] offset;",
        f"  logic [{index_bits - 1}:0] index;",
        "",
        "  always_comb begin",
        "    offset = addr_i;",
        "    index = '0;",
    ]
    for block in blocks:
        low = block.stride.bit_length() - 1
        high = block.span.bit_length() - 2
        tag = f"[31:{high + 1}]"
        lines += [
            f"    if (addr_i{tag} == Reg{pascal(block.name)}{tag}) begin",
            f"      offset[{high}:{low}] = '0;",
        ]
        if not block.is_external:
            lines.append(f"      index = {index_bits}'(addr_i[{high}:{low}]);")
        lines.append("    end")
    return [*lines, "  end"]


def _read_lines(contract: Contract) -> list[str]:
    lines = [
        "",
        "  logic known, external;",
        "  logic [63:0] rdata;",
        "",
        "  always_comb begin",
        "    known = 1'b1;",
        "    external = 1'b0;",
        "    rdata = '0;",
        "    unique case (offset)",
    ]
    for register in contract.registers:
        lines += _read_case(register)
    return [*lines, "      default: known = 1'b0;", "    endcase", "  end"]


def _read_case(register: Register) -> list[str]:
    if register.is_external:
        return [f"      Reg{pascal(register.name)}: external = 1'b1;"]
    head = f"      Reg{pascal(register.name)}: rdata = "
    fields = [_read_field(register, field) for field in reversed(register.fields)]
    if register.is_whole:
        return [f"{head}{fields[0]};"]
    if len(fields) == 1:
        return [f"{head}64'({fields[0]});"]
    line = f"{head}64'({{{', '.join(fields)}}});"
    if len(line) <= WIDTH:
        return [line]
    parts = [f"        {field}," for field in fields]
    return [head + "64'({", *parts[:-1], parts[-1].rstrip(","), "      });"]


def _place(register: Register) -> str:
    """The register within a port struct."""
    return register.name.lower() + ("[index]" if register.is_array else "")


def _read_field(register: Register, field: RegisterField) -> str:
    if field.reset is not None:
        if field.reset.name:
            return pascal(field.reset.name)
        return f"{field.bits}'d{field.reset.value}"
    if field.access == "w1p":
        return "1'b0"
    source = "regs_q" if field.is_stored else "hw2reg_i"
    member = f".{field.name.lower()}" if field.name else ""
    return f"{source}.{_place(register)}{member}"


def _write_lines(contract: Contract) -> list[str]:
    lines = [
        "",
        "  always_ff @(posedge clk_i or negedge rst_ni) begin",
        "    if (!rst_ni) begin",
        "      regs_q <= '{default: '0};",
        "    end else begin",
    ]
    for register in contract.registers:
        place = register.name.lower()
        for field in register.fields:
            if field.access == "w1p":
                lines.append(f"      regs_q.{place}.{field.name.lower()} <= 1'b0;")
    lines += ["      if (req_i && we_i) begin", "        unique case (offset)"]
    for register in contract.registers:
        if register.is_stored:
            lines += [
                f"          Reg{pascal(register.name)}: begin",
                *(
                    line
                    for field in register.fields
                    if field.is_stored
                    for line in _write_field(contract, register, field)
                ),
                "          end",
            ]
    return [*lines, "          default: ;", "        endcase", "      end", "    end", "  end"]


def _write_field(contract: Contract, register: Register, field: RegisterField) -> list[str]:
    if register.is_whole:
        return [f"            regs_q.{_place(register)} <= wdata_i;"]
    bits = f"{field.lsb + field.bits - 1}:{field.lsb}" if field.bits > 1 else f"{field.lsb}"
    value = "wdata_i" if field.bits == REGISTER_BITS else f"wdata_i[{bits}]"
    lines = [f"            regs_q.{_place(register)}.{field.name.lower()} <= {value};"]
    cleared = [
        (other, target)
        for other in contract.registers
        for target in other.fields
        if target.cleared_by == f"{register.name}.{field.name}"
    ]
    if cleared:
        lines.append(f"            if ({value}) begin")
        for other, target in cleared:
            lines += _clear_lines(other, target)
        lines.append("            end")
    return lines


def _clear_lines(register: Register, field: RegisterField) -> list[str]:
    lower, member = register.name.lower(), field.name.lower()
    if not register.is_array:
        return [f"              regs_q.{lower}.{member} <= '0;"]
    count = f"Reg{pascal(register.name)}Count"
    return [
        f"              for (int unsigned i = 0; i < {count}; i++) begin",
        f"                regs_q.{lower}[i].{member} <= '0;",
        "              end",
    ]
