"""Training data: what the labels of a sequence promise about its tokens."""

import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from training import sequences
from training.html_text import html_to_text
from training.long_context import diluted_causal_mask, skipping_positions
from training.needles import draw_needles, plant
from training.sequences import ANSWER_WEIGHT, COPY_WEIGHT, NO_SOURCE, TrainingSequence

pytestmark = pytest.mark.quick

SEEDS = range(20)
LENGTH = 512

Maker = Callable[[int], TrainingSequence]


@pytest.fixture(params=["text", "copy", "needle"])
def make(request: pytest.FixtureRequest, maker: Callable[[str], Maker]) -> Maker:
    return maker(request.param)


@pytest.fixture(scope="module")
def maker(vocabulary: Tokenizer, demo_document: str) -> Callable[[str], Maker]:
    """Gives, for a kind of sequence, the function that makes one from a seed."""

    def of_kind(kind: str) -> Maker:
        function = getattr(sequences, f"{kind}_sequence")
        make = partial(function, vocabulary, demo_document, LENGTH)
        return lambda seed: make(random.Random(seed))

    return of_kind


def test_sources_hold_the_token_to_predict(make: Maker) -> None:
    for seed in SEEDS:
        sequence = make(seed)
        assert {len(field) for field in vars(sequence).values()} == {LENGTH}
        assert np.array_equal(sequence.tokens[1:], sequence.targets[:-1])
        rows = np.flatnonzero(sequence.sources != NO_SOURCE)
        assert (sequence.sources[rows] <= rows).all()
        assert (sequence.tokens[sequence.sources[rows]] == sequence.targets[rows]).all()
        assert sequence.salient[sequence.sources[rows]].all()


def test_same_seed_same_sequence(make: Maker) -> None:
    assert np.array_equal(make(7).tokens, make(7).tokens)
    assert not np.array_equal(make(7).tokens, make(8).tokens)


def test_text_repeats_nothing(maker: Callable[[str], Maker]) -> None:
    assert (maker("text")(0).sources == NO_SOURCE).all()


@pytest.mark.parametrize(("kind", "weight"), [("copy", COPY_WEIGHT), ("needle", ANSWER_WEIGHT)])
def test_what_is_repeated_weighs_more(
    maker: Callable[[str], Maker], kind: str, weight: float
) -> None:
    made = [maker(kind)(seed) for seed in SEEDS]
    assert sum((sequence.sources != NO_SOURCE).sum() for sequence in made) > 500
    for sequence in made:
        heavy = sequence.weights == weight
        assert (heavy >= (sequence.sources != NO_SOURCE)).all()


def test_answers_are_the_values_and_nothing_else_of_a_needle_is_learnt(
    maker: Callable[[str], Maker], vocabulary: Tokenizer
) -> None:
    count = 0
    for seed in SEEDS:
        sequence = maker("needle")(seed)
        answered = vocabulary.decode(sequence.targets[sequence.weights == ANSWER_WEIGHT].tolist())
        assert set(answered) <= set("0123456789;")
        count += answered.count(";")
        ignored = vocabulary.decode(sequence.targets[sequence.weights == 0].tolist())
        assert ignored.count("@") >= answered.count(";")
    assert count > 5 * len(SEEDS)


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


def test_positions_rise_jump_at_line_ends_and_stay_within_the_limit(
    maker: Callable[[str], Maker],
) -> None:
    tokens = maker("text")(0).tokens
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
