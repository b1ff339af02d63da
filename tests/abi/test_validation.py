"""A wrong contract is refused, and the message names the culprit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from contract_oracle import CONTRACT
from generator.load import load
from generator.model import ContractError
from generator.validate import validate
from generator.words import RESERVED

pytestmark = pytest.mark.quick

GENERATOR = CONTRACT.parent / "gen.py"


def judge(text: str, folder: Path) -> str:
    """What the generator says about a contract; empty if it has no complaint."""
    path = folder / "contract.toml"
    path.write_text(text, encoding="utf-8")
    try:
        validate(load(path))
    except ContractError as error:
        return str(error)
    return ""


def altered(old: str, new: str) -> str:
    """The contract with one piece of its text replaced."""
    text = CONTRACT.read_text(encoding="utf-8")
    assert text.count(old) >= 1, f"the contract no longer says {old!r}"
    return text.replace(old, new, 1)


def register(name: str, lines: str) -> str:
    """The contract with one register more."""
    text = CONTRACT.read_text(encoding="utf-8")
    return f'{text}\n[[register]]\nname = "{name}"\ndoc = "Added."\n{lines}\n'


def test_the_contract_itself_is_right(tmp_path: Path) -> None:
    assert judge(CONTRACT.read_text(encoding="utf-8"), tmp_path) == ""


REPLACEMENTS = {
    "implicit padding": (
        '{ name = "sign_run", bits = 8, doc = "CODES: pages in a row that share a sign set;'
        ' 0 means SIGN_RUN. Not looked at without CODES." },',
        "",
        ["struct.append_command", "63 of 64 bytes"],
    ),
    "struct size": (
        "[struct.topk_command]\nsize = 64",
        "[struct.topk_command]\nsize = 72",
        ["struct.topk_command", "64 of 72 bytes"],
    ),
    "command of another size": (
        "COMMAND_BYTES = { value = 64",
        "COMMAND_BYTES = { value = 128",
        ["struct.read_command: 64 bytes", "COMMAND_BYTES"],
    ),
    "structure too long": (
        '{ name = "k_exponent", bits = 8, doc = "Largest',
        '{ name = "k_exponent", bits = 16, doc = "Largest',
        ["struct.page_entry", "9 of 8 bytes"],
    ),
    "field not naturally aligned": (
        '{ name = "tag", bits = 16, doc = "Returned in the completion." },\n'
        '  { name = "head_dim", bits = 16,',
        '{ name = "tag", bits = 8, doc = "Returned in the completion." },\n'
        '  { name = "head_dim", bits = 16,',
        ["struct.append_command.head_dim", "byte 3", "not naturally aligned"],
    ),
    "field width": (
        '{ name = "element", bits = 16,',
        '{ name = "element", bits = 24,',
        ["struct.row_exception.fields.element", "24 bits"],
    ),
    "duplicate status code": (
        "BAD_PAGE = { value = 5,",
        "BAD_PAGE = { value = 4,",
        ["enum.status.BAD_PAGE", "duplicate value 4", "STALE_PAGE"],
    ),
    "enum value beyond its width": (
        "COPY = { value = 9,",
        "COPY = { value = 256,",
        ["enum.opcode.COPY", "256 does not fit 8 bits"],
    ),
    "unknown errno": (
        'errno = "ESTALE"',
        'errno = "ESTALLED"',
        ["enum.status.STALE_PAGE", "ESTALLED"],
    ),
    "flag beyond its field": (
        "LSE_BASE2 = { bit = 1,",
        "LSE_BASE2 = { bit = 8,",
        ["struct.attend_command.flags", "attend_flag"],
    ),
    "duplicate flag bit": (
        "LSE_BASE2 = { bit = 1,",
        "LSE_BASE2 = { bit = 0,",
        ["flags.attend_flag.LSE_BASE2", "duplicate bit 0", "OUTPUT_BF16"],
    ),
    "unknown scope": (
        "[struct.doorbell_line]\n",
        '[struct.doorbell_line]\nscope = "hosts"\n',
        ["struct.doorbell_line.scope", "hosts", "did you mean `host`"],
    ),
    "a device's structure in words of hosts": (
        'enum = "attend_mode"',
        'enum = "store_event"',
        ["struct.attend_command.mode", "`store_event` is not of scope device"],
    ),
    "duplicate ioctl": (
        "EVENTFD = { number = 7,",
        "EVENTFD = { number = 6,",
        ["ioctl.EVENTFD", "duplicate number of WAIT"],
    ),
    "ioctl of nothing": (
        'struct = "card_wait"',
        'struct = "card_weight"',
        ["ioctl.WAIT", "unknown structure `card_weight`"],
    ),
    "unknown enum": (
        'enum = "attend_mode"',
        'enum = "atend_mode"',
        ["struct.attend_command.fields.mode", "atend_mode", "did you mean `attend_mode`"],
    ),
    "unknown flags": (
        'flags = "append_flag"',
        'flags = "apend_flag"',
        ["struct.append_command.fields.flags", "apend_flag", "did you mean `append_flag`"],
    ),
    "unknown limit": (
        'max = "MAX_TOP_K"',
        'max = "MAX_TOPK"',
        ["struct.attend_command.fields.top_k.max", "MAX_TOPK", "did you mean `MAX_TOP_K`"],
    ),
    "unknown opcode": (
        'value = "GATHER"',
        'value = "GATHERS"',
        ["struct.gather_command.fields.opcode", "GATHERS", "did you mean `GATHER`"],
    ),
    "opcode of two commands": (
        'value = "GATHER"',
        'value = "READ"',
        ["struct.gather_command.opcode", "READ", "struct.read_command"],
    ),
    "duplicate field": (
        '{ name = "kv_head", bits = 16, doc = "Written',
        '{ name = "layer", bits = 16, doc = "Written',
        ["struct.append_command.layer", "duplicate name `layer`"],
    ),
    "duplicate key": (
        "MAX_GROUP = {",
        "PAGE_TOKENS = {",
        ["not valid TOML", "name given twice"],
    ),
    "limit and format alike": (
        "QUERY_BITS = {",
        "MAX_GROUP = {",
        ["format.MAX_GROUP", "duplicate name", "limit.MAX_GROUP"],
    ),
    "names alike without underscores": (
        '{ name = "KEY_SCALES"',
        '{ name = "X_0", bytes = "0", doc = "." },\n  { name = "X0"',
        ["page.arrays.X0", "duplicate name", "page.arrays.X_0"],
    ),
    "typing error in a key": (
        "multiple = 4, doc",
        "mutiple = 4, doc",
        ["struct.attend_command.fields.query", "unknown key `mutiple`", "did you mean `multiple`"],
    ),
    "typing error in a section": (
        "[limit]",
        "[limits]",
        ["`limit` is missing"],
    ),
    "missing key": (
        '[enum.dtype]\ndoc = "Element type of rows that the host hands over."',
        "[enum.dtype]",
        ["enum.dtype", "`doc` is missing"],
    ),
    "wrong type": (
        "MAX_GROUP = { value = 128",
        'MAX_GROUP = { value = "128"',
        ["limit.MAX_GROUP.value", "an integer"],
    ),
    "bound beyond the field": (
        '{ name = "group", bits = 8, min = 1, max = "MAX_GROUP"',
        '{ name = "group", bits = 8, min = 1, max = "MAX_TOP_K"',
        ["struct.attend_command.group", "MAX_TOP_K does not fit 8 bits"],
    ),
    "bounds crossed": (
        '{ name = "group", bits = 8, min = 1, max = "MAX_GROUP"',
        '{ name = "group", bits = 8, min = 9, max = 8',
        ["struct.attend_command.group", "min 9 is above max 8"],
    ),
    "multiple that hardware would divide by": (
        '"query", bits = 64, kind = "address", multiple = 4',
        '"query", bits = 64, kind = "address", multiple = 12',
        ["struct.attend_command.query", "12 is not a power of two"],
    ),
    "narrow address": (
        '{ name = "window", bits = 32, doc',
        '{ name = "window", bits = 32, kind = "address", doc',
        ["struct.attend_command.window", "an address is 64 bits"],
    ),
    "checked array": (
        'bits = 8, count = "NAMESPACE_TEXT_BYTES", doc',
        'bits = 8, count = "NAMESPACE_TEXT_BYTES", max = 3, doc',
        ["struct.daemon_namespace_info.text", "only a single unsigned field"],
    ),
    "name in the wrong case": (
        '{ name = "kv_head", bits = 16, doc = "Written',
        '{ name = "kvHead", bits = 16, doc = "Written',
        ["struct.append_command.kvHead", "lower case"],
    ),
    "register field overflow": (
        '{ name = "TOP_K", bits = 16, doc',
        '{ name = "TOP_K", bits = 33, doc',
        ["register.LIMITS", "73 bits, 9 more"],
    ),
    "register overlap": (
        'name = "LIMITS"\noffset = 0x020',
        'name = "LIMITS"\noffset = 0x018',
        ["register.LIMITS", "overlaps MEMORY_BYTES at 0x18"],
    ),
    "register arrays overlap": (
        'name = "CQ_BASE"\noffset = 0x1008',
        'name = "CQ_BASE"\noffset = 0x1000',
        ["register.CQ_BASE", "overlaps SQ_BASE at 0x1000"],
    ),
    "register misaligned": (
        'name = "TICK_HZ"\noffset = 0x028',
        'name = "TICK_HZ"\noffset = 0x02c',
        ["register.TICK_HZ", "0x2c is misaligned"],
    ),
    "duplicate register": (
        'name = "TICK_HZ"',
        'name = "LIMITS"',
        ["register.LIMITS", "duplicate name `REG_LIMITS`"],
    ),
    "duplicate register field": (
        '{ name = "FATAL", bits = 1',
        '{ name = "READY", bits = 1',
        ["register.DEVICE_STATUS.READY", "duplicate name"],
    ),
    "register access": (
        'name = "TICK_HZ"\noffset = 0x028\naccess = "ro"',
        'name = "TICK_HZ"\noffset = 0x028\naccess = "or"',
        ["register.TICK_HZ", "access `or`"],
    ),
    "reset of a writable field": (
        'access = "w1p", doc',
        'access = "w1p", reset = 1, doc',
        ["register.CONTROL.RESET", "only constants have `reset`"],
    ),
    "reset beyond its field": (
        'reset = "abi.major"',
        'reset = "abi.id"',
        ["register.ABI.MAJOR", "does not fit 16 bits"],
    ),
    "cleared by nothing": (
        'name = "ENABLE", bits = 1, cleared_by = "CONTROL.RESET"',
        'name = "ENABLE", bits = 1, cleared_by = "CONTROL.REST"',
        ["register.QUEUE_CONTROL.ENABLE", "CONTROL.REST"],
    ),
    "stride that is no slice of the address": (
        "offset = 0x1048\nstride = 0x80",
        "offset = 0x1048\nstride = 0x88",
        ["register.QUEUE_STATUS", "stride 0x88 must be a power of two"],
    ),
    "unknown quantity in a page size": (
        'bytes = "value_dim"',
        'bytes = "valuedim"',
        ["page.arrays.V_EXPONENTS", "valuedim", "did you mean `value_dim`"],
    ),
    "unsafe page size": (
        'bytes = "value_dim"',
        'bytes = "value_dim - 4"',
        ["page.arrays.V_EXPONENTS", "only numbers, names"],
    ),
    "page beyond 32 bits": (
        'bytes = "value_dim"',
        'bytes = "value_dim * value_dim"',
        ["page.arrays", "beyond 32-bit sizes"],
    ),
    "array of hosts among those of devices": (
        '{ name = "V_ROWS"',
        '{ scope = "host", name = "V_ROWS"',
        ["page.arrays", "come last"],
    ),
    "condition on nothing": (
        'when = "key_scales"',
        'when = "key_scale"',
        ["page.arrays.KEY_SCALES", "`key_scale`"],
    ),
    "row form without a size": (
        '{ form = "NONE", bytes = "0" },',
        "",
        ["page.row_bytes", "NONE"],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), REPLACEMENTS.values(), ids=REPLACEMENTS.keys())
def test_a_wrong_contract_is_refused(
    old: str, new: str, expected: list[str], tmp_path: Path
) -> None:
    message = judge(altered(old, new), tmp_path)
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("word", "language"),
    [
        ("volatile", "C"),
        ("restrict", "C"),
        ("namespace", "C++"),
        ("xor", "C++"),
        ("co_await", "C++"),
        ("table", "SystemVerilog"),
        ("output", "SystemVerilog"),
        ("sequence", "SystemVerilog"),
        ("checker", "SystemVerilog"),
        ("lambda", "Python"),
        ("match", "Python"),
        ("queue", "Verilator"),
        ("list", "Verilator"),
    ],
)
def test_a_field_may_not_be_a_reserved_word(word: str, language: str, tmp_path: Path) -> None:
    message = judge(
        altered('{ name = "sinks", bits = 8', f'{{ name = "{word}", bits = 8'), tmp_path
    )
    assert f"struct.attend_command.{word}: `{word}` is a reserved word" in message
    assert language in message.split("reserved word of", 1)[1]


def test_a_register_may_not_be_a_reserved_word_in_lower_case(tmp_path: Path) -> None:
    message = judge(altered('name = "TICK_HZ"', 'name = "EVENT"'), tmp_path)
    assert "register.EVENT: `EVENT` is a reserved word of SystemVerilog" in message
    message = judge(altered('{ name = "FATAL"', '{ name = "FINAL"'), tmp_path)
    assert "register.DEVICE_STATUS.FINAL: `FINAL` is a reserved word of SystemVerilog" in message


def test_every_systemverilog_keyword_is_known() -> None:
    # IEEE 1800-2017, annex B, table B.1 has 248 of them.
    assert len(RESERVED["SystemVerilog"]) == 248


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            'offset = 0x1060\naccess = "ro"',
            "register.ADDED: lies in the block of SQ_BASE (0x1000 to 0x1800)",
        ),
        (
            'offset = 0x1060\nstride = 0x8\ncount = 2\naccess = "ro"',
            "register.ADDED: lies in the block of SQ_BASE (0x1000 to 0x1800)",
        ),
        (
            'offset = 0x2080\nstride = 0x80\ncount = 4\naccess = "ro"',
            "register.ADDED: offset 0x2080 must lie in the first 0x80 bytes",
        ),
        (
            'offset = 0x2000\nstride = 0x80\ncount = 3\naccess = "ro"',
            "register.ADDED: count 3 must be a power of two",
        ),
        (
            'offset = 0x2000\nstride = 0x80\ncount = 4\naccess = "rw"\nfields = '
            '[{ name = "GO", bits = 1, access = "w1p", doc = "Pulse." }]',
            "register.ADDED.GO: a pulse belongs to a single register",
        ),
        (
            'offset = 0x2000\naccess = "rw"\nfields = [{ name = "A", bits = 1, doc = "A." },'
            ' { name = "B", bits = 1, access = "ro", doc = "B." }]',
            "register.ADDED: some fields are written, others driven",
        ),
        (
            'offset = 0x2000\naccess = "rw"\nfields = [{ name = "A", bits = 2, access = "w1p",'
            ' doc = "A." }]',
            "register.ADDED.A: a pulse has one bit",
        ),
        (
            'offset = 0x2000\naccess = "rw"\nexternal = true\nfields = [{ name = "A", bits = 1,'
            ' cleared_by = "CONTROL.RESET", doc = "A." }]',
            "register.ADDED.A: an external register has no `reset`, `cleared_by` or pulse",
        ),
    ],
)
def test_what_the_csr_block_cannot_decode_is_refused(
    lines: str, expected: str, tmp_path: Path
) -> None:
    assert expected in judge(register("ADDED", lines), tmp_path)


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = altered("BAD_PAGE = { value = 5,", "BAD_PAGE = { value = 4,")
    message = judge(text.replace('name = "TICK_HZ"', 'name = "EVENT"'), tmp_path)
    assert "BAD_PAGE" in message and "EVENT" in message


def generate(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The generator's command line, run as a person would."""
    command = [sys.executable, "-B", str(GENERATOR), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_was_just_written_is_up_to_date(tmp_path: Path) -> None:
    assert generate("--out", tmp_path).returncode == 0
    assert generate("--check", "--out", tmp_path).returncode == 0
    for path in tmp_path.iterdir():
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert "Generated from rtl/abi/nearkv.toml by rtl/abi/gen.py; do not edit." in first


def test_check_names_every_stale_file_and_what_to_do(tmp_path: Path) -> None:
    generate("--out", tmp_path)
    header = tmp_path / "nkv_abi.h"
    header.write_text(header.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (tmp_path / "nkv_abi.py").unlink()
    (tmp_path / "nkv_old.h").touch()
    result = generate("--check", "--out", tmp_path)
    assert result.returncode == 1
    assert "nkv_abi.h is not what the contract says" in result.stderr
    assert "nkv_abi.py is missing" in result.stderr
    assert "nkv_old.h is not an output; remove it" in result.stderr
    assert "Run `python3 rtl/abi/gen.py` and commit the result." in result.stderr


def test_a_wrong_contract_stops_the_generator_before_it_writes(tmp_path: Path) -> None:
    contract, out = tmp_path / "contract.toml", tmp_path / "out"
    contract.write_text(altered("GATHER = { value = 5,", "GATHER = { value = 4,"), encoding="utf-8")
    result = generate("--contract", contract, "--out", out)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert not out.exists()


def test_help_says_what_the_generator_does() -> None:
    result = generate("--help")
    assert result.returncode == 0
    assert "--check" in result.stdout
