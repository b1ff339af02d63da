"""The static check of the kernels: they pass, and each seeded violation is found."""

import importlib.util
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_KERNELS = sorted((_ROOT / "hls" / "kernels").glob("*.cpp"))

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("clang") is None, reason="no libclang (./nearkv setup installs it)"
    ),
    pytest.mark.skipif(
        not (_ROOT / ".venv" / "share" / "hls" / "ap_int.h").exists(),
        reason="no HLS headers (./nearkv setup installs them)",
    ),
]

_HEAD = """
#include "kernels/types.hpp"
#include <cmath>
#include <cstdlib>
#include <vector>
using namespace nearkv::kernels;
namespace {
void produce(stream<int>& out, int count) {
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 64
#pragma HLS pipeline II = 1  // One a cycle.
    out.write(i);
  }
}
void consume(stream<int>& in, int count, int* out) {
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 64
    out[i] = in.read();
  }
}
void forward(stream<int>& in, stream<int>& out, int count) {
  produce(out, count - in.read());
}
}  // namespace
"""

# What is seeded, and what is to be said about it.
_SEEDED = {
    "recursion": ("int f(int n) { return n == 0 ? 0 : f(n - 1); }", "f calls itself"),
    "recursion through another": (
        "int g(int n); int f(int n) { return g(n); } int g(int n) { return f(n - 1); }",
        "f calls itself",
    ),
    "new": ("int* f() { return new int(3); }", "new or delete"),
    "malloc": ("void* f() { return malloc(3); }", "dynamic memory: malloc"),
    "vector": ("int f() { std::vector<int> v; return v.empty(); }", "v is a"),
    "library call": ("double f(double x) { return std::cbrt(x); }", "cbrt is not synthesised"),
    "throw": ("int f() { throw 3; }", "exceptions"),
    "while": ("int f(int n) { while (n > 3) n /= 2; return n; }", "a while loop"),
    "bound unknown": (
        "int f(int n) { int s = 0; for (int i = 0; i < n; ++i) { s += i; } return s; }",
        "no loop_tripcount",
    ),
    "counter changes": (
        "int f() { int s = 0; for (int i = 0; i < 9; ++i) { s += i; i += s; } return s; }",
        "i changes in its body",
    ),
    "no counter": ("int f() { int i = 0; for (; i < 9;) { i *= 2; } return i; }", "one counter"),
    "no reason": (
        "void f(int* x) { for (int i = 0; i < 9; ++i) {\n"
        "#pragma HLS pipeline II = 1\nx[i] = i; } }",
        "without its reason",
    ),
    "two readers": (
        'void f(int* a, int* b) {\n#pragma HLS dataflow\nstream<int> s("s"); '
        "produce(s, 9); consume(s, 5, a); consume(s, 4, b); }",
        "stream s has 2 readers",
    ),
    "two writers": (
        'void f(int* a) {\n#pragma HLS dataflow\nstream<int> s("s"); '
        "produce(s, 9); produce(s, 5); consume(s, 14, a); }",
        "stream s has 2 writers",
    ),
    "no reader": (
        'void f() {\n#pragma HLS dataflow\nstream<int> s("s"); produce(s, 9); }',
        "stream s has 0 readers",
    ),
    "one process": (
        'void f(int n) {\n#pragma HLS dataflow\nstream<int> s("s"); forward(s, s, n); }',
        "written and read by one process",
    ),
    "port of two": (
        'void f(int* a) {\n#pragma HLS dataflow\nstream<int> s("s"); stream<int> t("t"); '
        "produce(s, 9); produce(t, 9); consume(s, 9, a); consume(t, 9, a); }",
        "port a has 2 processes",
    ),
    "array of three": (
        'void f(int* a) {\n#pragma HLS dataflow\nint m[9]; stream<int> s("s"); stream<int> t("t"); '
        'stream<int> u("u"); produce(s, 9); produce(t, 9); produce(u, 9); '
        "consume(s, 9, m); consume(t, 9, m); consume(u, 9, m); }",
        "array m is shared by 3 processes",
    ),
}


@pytest.mark.parametrize("kernel", _KERNELS, ids=lambda path: path.stem)
def test_kernels_are_synthesisable(kernel: Path) -> None:
    from hls.check.__main__ import findings_of

    assert findings_of([kernel]) == []


def test_what_is_well_formed_passes(tmp_path: Path) -> None:
    from hls.check.__main__ import findings_of

    file = tmp_path / "good.cpp"
    file.write_text(
        _HEAD + 'void f(int n, int* a) {\n#pragma HLS dataflow\nstream<int> s("s"); '
        'stream<int> t("t"); produce(s, 1); forward(s, t, n); consume(t, n, a); }\n',
        encoding="utf-8",
    )
    assert findings_of([file]) == []


@pytest.mark.parametrize("violation", _SEEDED)
def test_seeded_violations_are_found(tmp_path: Path, violation: str) -> None:
    from hls.check.__main__ import findings_of

    text, told = _SEEDED[violation]
    file = tmp_path / "seeded.cpp"
    file.write_text(_HEAD + text + "\n", encoding="utf-8")
    found = findings_of([file])
    assert any(told in line for line in found), found


def test_what_does_not_compile_is_said(tmp_path: Path) -> None:
    from hls.check.__main__ import findings_of

    file = tmp_path / "broken.cpp"
    file.write_text("int f( {", encoding="utf-8")
    with pytest.raises(ValueError, match="does not compile"):
        findings_of([file])
