"""Batches in their order: whatever is lost, late or sent twice, nobody is told a wrong state."""

import random

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")

from nearkv.router.feed import Feed, Lost

FRESH = b"fresh"


class Listener:
    """A feed, the clock it sees, and what it gave."""

    def __init__(self, *, may_ask: bool = True) -> None:
        self.now = 0.0
        self.asked: list[int] = []
        self.given: list[bytes | Lost] = []
        self.feed = Feed(
            self.asked.append if may_ask else None,
            lambda batch: batch.startswith(FRESH),
            patience_s=2,
            clock=lambda: self.now,
        )

    def published(self, *numbers: int) -> "Listener":
        for number in numbers:
            self.given += self.feed.published(number, b"%d" % number)
        return self

    def replayed(self, *numbers: int) -> "Listener":
        for number in numbers:
            self.given += self.feed.replayed(number, b"%d" % number)
        return self

    @property
    def numbers(self) -> list[int | str]:
        return ["lost" if isinstance(each, Lost) else int(each) for each in self.given]


def test_what_is_in_order_is_given_at_once() -> None:
    assert Listener().published(0, 1, 2).numbers == [0, 1, 2]


def test_who_comes_late_asks_from_the_first() -> None:
    listener = Listener().published(2, 3)
    assert (listener.asked, listener.numbers) == ([0], [])
    assert listener.replayed(0, 1, 2, 3, -1).published(4).numbers == [0, 1, 2, 3, 4]


def test_what_was_there_before_is_asked_for_at_the_beginning() -> None:
    listener = Listener()
    listener.feed.begin()
    assert listener.replayed(0, 1).published(2).numbers == [0, 1]
    assert listener.replayed(2, -1).published(3).numbers == [0, 1, 2, 3]
    assert listener.asked == [0]


def test_a_beginning_that_nobody_answers_is_no_loss() -> None:
    listener = Listener()
    listener.feed.begin()
    listener.now = 3
    listener.given += listener.feed.late()
    assert listener.published(0, 1).numbers == [0, 1]
    alone = Listener(may_ask=False)
    alone.feed.begin()
    assert alone.published(0).numbers == [0]


def test_a_gap_is_filled_before_what_waits() -> None:
    listener = Listener().published(0, 3, 4)
    assert listener.asked == [1]
    assert listener.replayed(1, 2, 3, -1).numbers == [0, 1, 2, 3, 4]
    assert not listener.feed.is_asking


def test_what_is_kept_no_more_is_lost_once() -> None:
    listener = Listener().published(0, 5, 6).replayed(-1)
    assert listener.numbers == [0, "lost", 5, 6]
    assert isinstance(listener.given[1], Lost)
    assert "missed batch 1 to 4: the publisher does not keep it" in listener.given[1].reason


def test_what_is_still_kept_behind_it_is_taken() -> None:
    listener = Listener().published(0, 6)
    assert listener.replayed(3, 4, 5, 6, -1).published(7).numbers == [0, "lost", 3, 4, 5, 6, 7]
    assert "missed batch 1 to 2" in listener.given[1].reason


def test_who_does_not_answer_is_given_up() -> None:
    listener = Listener().published(0, 2)
    listener.now = 1.9
    listener.given += listener.feed.late()
    assert listener.numbers == [0]
    listener.now = 2.1
    listener.given += listener.feed.late()
    assert listener.numbers == [0, "lost", 2]
    assert listener.published(3).numbers == [0, "lost", 2, 3]


def test_without_anyone_to_ask_it_is_lost_at_once() -> None:
    assert Listener(may_ask=False).published(0, 2).numbers == [0, "lost", 2]


def test_a_publisher_that_begins_anew_is_lost_and_followed() -> None:
    assert Listener().published(0, 1, 2, 0, 1).numbers == [0, 1, 2, "lost", 0, 1]
    late = Listener().published(0, 1, 2, 1)
    assert (late.numbers, late.asked) == ([0, 1, 2, "lost"], [0])
    assert late.replayed(0, 1, -1).numbers == [0, 1, 2, "lost", 0, 1]


def test_a_batch_that_clears_first_needs_none_before_it() -> None:
    listener = Listener()
    listener.given += listener.feed.published(7, FRESH)
    assert listener.given == [FRESH]
    listener.published(9)
    listener.given += listener.feed.replayed(8, FRESH + b" too")
    listener.given += listener.feed.replayed(-1, b"")
    assert listener.given == [FRESH, FRESH + b" too", b"9"]


@pytest.mark.parametrize("seed", range(200))
def test_state_is_right_or_dropped(seed: int) -> None:
    """Each batch adds its number to a sum; a listener must have all since the last Lost or start.

    Batches get lost on their way, answers too, publishers forget, and begin anew.
    """
    draw = random.Random(seed)
    listener = Listener()
    kept: list[int] = []
    if seed % 2:
        listener.feed.begin()
    life, number = 0, 0
    told: list[tuple[int, int]] = []

    def payload(of: int) -> bytes:
        return b"%d.%d" % (life, of)

    for _ in range(300):
        listener.now += 0.1
        if draw.random() < 0.01:
            life, number, kept = life + 1, 0, []
        kept = [*kept, number][-draw.choice((3, 100)) :]
        # That a publisher began anew can only be seen while its numbers are below the last one.
        if number == 0 or draw.random() < 0.85:
            listener.given += listener.feed.published(number, payload(number))
        number += 1
        if listener.feed.is_asking and draw.random() < 0.5:
            first = listener.asked[-1]
            answers = [each for each in kept if each >= first and draw.random() < 0.97]
            for each in answers:
                listener.given += listener.feed.replayed(each, payload(each))
            if draw.random() < 0.9:
                listener.given += listener.feed.replayed(-1, b"")
        listener.given += listener.feed.late()
    for each in listener.given:
        if isinstance(each, Lost):
            told.clear()
            continue
        of_life, of_number = map(int, each.split(b"."))
        if told:
            assert (of_life, of_number) == (told[-1][0], told[-1][1] + 1)
        told.append((of_life, of_number))
