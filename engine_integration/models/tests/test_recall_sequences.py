"""Training data: what the labels of a sequence promise about its tokens."""

import random

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from training import tokenizer as tokenizers
from training.html_text import html_to_text
from training.long_context import diluted_causal_mask, skipping_positions
from training.needles import (
    TRAINED_FORMATS,
    UNSEEN_FORMATS,
    LineFormat,
    draw_keys,
    plant,
)
from training.sequences import (
    ANSWER_WEIGHT,
    COPY_WEIGHT,
    NO_SOURCE,
    SequenceMaker,
)

SEEDS = range(20)
LENGTH = 512


@pytest.fixture(scope="module")
def vocabulary(demo_document: str) -> Tokenizer:
    return tokenizers.train(demo_document)


@pytest.fixture(scope="module")
def maker(vocabulary: Tokenizer, demo_document: str) -> SequenceMaker:
    return SequenceMaker(vocabulary, demo_document, LENGTH)


@pytest.mark.parametrize("kind", ["text", "copy", "needle"])
def test_sources_hold_the_token_to_predict(maker: SequenceMaker, kind: str) -> None:
    for seed in SEEDS:
        sequence = maker.make(kind, random.Random(seed))
        assert len(sequence.tokens) == LENGTH + 1
        assert len(sequence.weights) == len(sequence.sources) == len(sequence.salient) == LENGTH
        rows = np.flatnonzero(sequence.sources != NO_SOURCE)
        assert (sequence.sources[rows] <= rows).all()
        assert (sequence.tokens[sequence.sources[rows]] == sequence.tokens[rows + 1]).all()


def test_only_copies_and_answers_have_sources(maker: SequenceMaker) -> None:
    assert (maker.make("text", random.Random(0)).sources == NO_SOURCE).all()
    copied = sum((maker.make("copy", random.Random(s)).weights == COPY_WEIGHT).sum() for s in SEEDS)
    asked = [maker.make("needle", random.Random(seed)) for seed in SEEDS]
    answered = sum((sequence.weights == ANSWER_WEIGHT).sum() for sequence in asked)
    assert copied > 1000
    assert answered > 500
    for sequence in asked:
        assert (sequence.weights[sequence.sources != NO_SOURCE] == ANSWER_WEIGHT).all()


def test_same_generator_same_sequence(maker: SequenceMaker) -> None:
    first, second = (maker.make("needle", random.Random(7)) for _ in range(2))
    assert np.array_equal(first.tokens, second.tokens)


@pytest.mark.parametrize("line_format", (*TRAINED_FORMATS, *UNSEEN_FORMATS), ids=lambda f: f.name)
def test_question_and_answer_make_the_line(line_format: LineFormat) -> None:
    question = line_format.question("falcon")
    assert not question.endswith(" ")
    assert question + line_format.answer("falcon", "12345") == line_format.line("falcon", "12345")
    assert "12345" not in question


def test_unseen_formats_are_unseen() -> None:
    assert not {f.name for f in TRAINED_FORMATS} & {f.name for f in UNSEEN_FORMATS}
    trained = {(f.opening, f.separator) for f in TRAINED_FORMATS}
    assert not trained & {(f.opening, f.separator) for f in UNSEEN_FORMATS}


def test_plant_keeps_the_text_and_finds_its_lines(demo_document: str) -> None:
    lines = [f"@key{index}={index};" for index in range(30)]
    planted, spans = plant(demo_document, lines, random.Random(3))
    assert [planted[start:end] for start, end in spans] == lines
    assert [line for line in planted.split("\n") if line not in lines] == demo_document.split("\n")


def test_keys_are_distinct(demo_document: str) -> None:
    assert len(set(draw_keys(random.Random(0), demo_document, 200))) == 200


def test_positions_rise_and_stay_within_the_limit(maker: SequenceMaker) -> None:
    tokens = maker.make("text", random.Random(0)).tokens[:-1]
    line_end = int(np.bincount(tokens).argmax())
    ends = []
    for seed in range(200):
        positions = skipping_positions(tokens, line_end, 33_792, random.Random(seed))
        steps = np.diff(positions)
        assert positions[0] >= 0
        assert positions[-1] < 33_792
        assert (steps >= 1).all()
        assert (tokens[:-1][steps > 1] == line_end).all()
        ends.append(positions[-1])
    assert max(ends) > 30_000


def test_dilution_spares_near_and_salient_keys() -> None:
    salient = torch.zeros(1, 40, dtype=torch.bool)
    salient[0, 5] = True
    mask = diluted_causal_mask(salient, torch.tensor([2.0]))[0, 0]
    assert mask[30, 10] == 2.0
    assert mask[30, 5] == 0.0
    assert mask[30, 29] == 0.0
    assert mask[10, 30] == float("-inf")
    assert mask.shape == (40, 40)


def test_html_becomes_tidy_text() -> None:
    page = """<html><head><title>x</title></head><body><div class="navheader">up</div>
      <h1>Title&nbsp;one</h1><p>Words <b>and</b>
      more&rdquo;</p><ul><li>item</li></ul><pre>a  b\n  c</pre>
      <table><tr><td>1</td><td>2</td></tr></table><script>no</script></body></html>"""
    assert html_to_text(page) == ('Title one\n\nWords and more"\n\n- item\n\na  b\n  c\n\n1 | 2\n')
