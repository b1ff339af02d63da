"""The table of seeded bugs: that it can be applied, and reaches all of rtl/."""

import re
from pathlib import Path

import pytest

from rtl.formal.prove import TableError
from tests.rtl.strength import mutate

pytestmark = pytest.mark.quick

# Of rtl/: what is generated, proved or built by other tools has no mutants here.
FOLDERS = {
    *("attend", "codec", "command", "exact", "ingest", "inline", "lib"),
    *("memory", "monitor", "page", "queue", "select", "topk"),
}


def test_every_mutant_is_of_a_text_that_stands_once():
    mutants = mutate.load(mutate.TABLE)
    assert len(mutants) >= 60
    assert {seeded.folder for seeded in mutants} >= FOLDERS
    assert len({seeded.mutant for seeded in mutants}) == len(mutants)


def test_what_has_to_tell_of_a_mutant_is_an_assertion():
    sources = [*mutate.RTL.rglob("*.sv")]
    asserted = {
        name
        for source in sources
        for name in re.findall(r"^ *(?:`NKV_ASSERT\w*\()?(\w+_A)\b", source.read_text(), re.M)
    }
    told = {seeded.says for seeded in mutate.load(mutate.TABLE)} - {""}
    assert len(told) >= 8
    assert told <= asserted


@pytest.mark.parametrize("old", ["no such text", "push"])
def test_a_mutant_of_a_text_that_does_not_stand_once_is_refused(tmp_path: Path, old: str):
    table = tmp_path / "mutants.toml"
    entry = f'{{ file = "lib/nkv_fifo.sv", old = "{old}", new = "" }}'
    table.write_text(f"[rtl_fifo_test]\nmutants = [{entry}]\n")
    with pytest.raises(TableError, match="times"):
        mutate.load(table)
