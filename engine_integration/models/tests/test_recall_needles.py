"""What models are measured on: lines planted in a text, and pages turned into text."""

import random

import pytest
from evaluation.html_text import html_to_text
from evaluation.needles import draw_needles, plant

pytestmark = pytest.mark.quick


def test_question_and_answer_make_the_line() -> None:
    for needle in draw_needles(100, (4, 5, 6), random.Random(0)):
        assert needle.line == f"@{needle.key}={needle.value};" == needle.question + needle.answer


def test_keys_are_distinct() -> None:
    assert len({needle.key for needle in draw_needles(200, (5,), random.Random(0))}) == 200


def test_plant_keeps_the_text_and_finds_its_lines(demo_document: str) -> None:
    needles = draw_needles(30, (5,), random.Random(3))
    lines = [needle.line for needle in needles]
    planted, spans = plant(demo_document, needles, random.Random(3))
    assert [planted[start:end] for start, end in spans] == lines
    assert [line for line in planted.split("\n") if line not in lines] == demo_document.split("\n")


def test_plant_ends_an_unfinished_line() -> None:
    (needle,) = draw_needles(1, (5,), random.Random(0))
    assert plant("no line end", [needle], random.Random(0))[0] in (
        f"{needle.line}\nno line end\n",
        f"no line end\n{needle.line}\n",
    )


def test_html_becomes_tidy_text() -> None:
    page = """<html><head><title>x</title></head><body><div class="navheader">up</div>
      <h1>Title&nbsp;one</h1><p>Words <b>and</b>
      more&rdquo;</p><ul><li>item</li></ul><pre>a  b\n  c</pre>
      <table><tr><td>1</td><td>2</td></tr></table><script>no</script></body></html>"""
    assert html_to_text(page) == ('Title one\n\nWords and more"\n\n- item\n\na  b\n  c\n\n1 | 2\n')
