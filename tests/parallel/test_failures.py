"""Ranks that are killed, stopped, hang or fail amid an algorithm: all others learn it in time."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from bench.ranks.world import World
from nearkv.parallel import Links, RankFailed, Sharding
from nearkv.parallel.watch import Watch
from tests.parallel.jobs import Case, algorithm_of, random_tokens

# Tests run beside each other, on machines that do other work: a rank that is merely slow is not to
# be taken for a dead one.
BOUND_S, SLACK_S = 12.0, 8.0
ALGORITHMS = ["ring", "token_ring", "ulysses", "hybrid 2 ring", "hybrid 2 token_ring"]


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hang() -> None:
    threading.Event().wait()


def fail() -> None:
    raise ValueError("no memory")


def attend_until_one_fails(links: Links, case: Case, victim: int, how: str) -> dict[str, Any]:
    """Attends for ever; the victim does something amid its second attention. What others see."""
    query, key, value = random_tokens(case)
    algorithm = algorithm_of(case, links)
    tokens = Sharding.zigzag(case.tokens, links.size)
    rows = [tokens.take(links.rank, part, 2) for part in (query, key, value)]
    came_s = time.monotonic()
    exchanged = 0

    def exchange(self: Links, *messages: Any) -> Any:
        nonlocal exchanged
        exchanged += 1
        if links.rank == victim and exchanged == 5:
            globals()[how]()
        return plain(self, *messages)

    plain, Links.exchange = Links.exchange, exchange
    try:
        while True:
            came_s = time.monotonic()
            shard = algorithm.place(*rows[1:], tokens)
            output = algorithm.attend(rows[0], shard, tokens, case.scores)
            assert torch.isfinite(output).all()
    except RankFailed as failed:
        seen = {"rank": failed.rank, "why": failed.why, "after_s": time.monotonic() - came_s}
    finally:
        Links.exchange = plain
    # It stays so.
    with pytest.raises(RankFailed) as again:
        links.exchange([], [])
    return seen | {"again": again.value.rank}


def survive(how: str, algorithm: str, victim: int, why: str) -> None:
    case = Case(algorithm=algorithm, tokens=64)
    with World(4, bound_s=BOUND_S) as world:
        world.start(attend_until_one_fails, case, victim, how)
        for rank in range(4):
            if rank != victim:
                seen = world.answer(rank, 60)
                assert (seen["rank"], seen["again"]) == (victim, victim), seen
                assert re.search(why, seen["why"]), seen
                assert seen["after_s"] < BOUND_S + SLACK_S
        world.processes[victim].kill()
        codes = world.close()
        assert codes[:victim] + codes[victim + 1 :] == [0, 0, 0]


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_killed_rank_is_named_by_all(algorithm: str, victim: int) -> None:
    survive("kill", algorithm, victim, "closed its connection|does not answer|sign of life")


@pytest.mark.parametrize(
    "algorithm, victim",
    [("ring", 1), ("token_ring", 0), pytest.param("ulysses", 3, marks=pytest.mark.long)],
)
def test_a_stopped_rank_is_named_by_all(algorithm: str, victim: int) -> None:
    survive("stop", algorithm, victim, "sign of life|sent nothing|does not answer")


def test_a_rank_that_hangs_is_told_from_those_that_wait_for_it() -> None:
    survive("hang", "ring", 3, f"sent nothing for {BOUND_S:g} s")


def test_links_that_are_closed_leave_no_thread_behind() -> None:
    with World(2, bound_s=BOUND_S) as world:
        assert world.run(leave_before_all_has_come) == [[], []]


def leave_before_all_has_come(links: Links) -> list[str]:
    """Rank 1 closes its links while it receives. Threads that are left of them."""
    before = threading.enumerate()
    with Links(bound_s=BOUND_S) as own:
        if links.rank == 0:
            time.sleep(0.5)
            own.exchange([(1, torch.ones(1))], []).wait()
        else:
            own.exchange([], [(0, torch.empty(1))])
    return [thread.name for thread in threading.enumerate() if thread not in before]


def test_the_first_in_a_row_of_ranks_that_wait_is_named() -> None:
    with World(3, bound_s=BOUND_S) as world:
        world.start(wait_in_a_row)
        for rank in (0, 1):
            assert world.answer(rank, 60) == (2, f"sent nothing for {BOUND_S:g} s")
        world.processes[2].kill()


def wait_in_a_row(links: Links) -> Any:
    """Rank 0 waits for rank 1, which later waits for rank 2, which hangs."""
    if links.rank == 2:
        hang()
    time.sleep(links.rank * BOUND_S / 2)
    try:
        links.exchange([], [(links.rank + 1, torch.empty(3))]).wait()
    except RankFailed as failed:
        return failed.rank, failed.why


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.long)])
def test_a_rank_that_nobody_waits_for_is_missed(how: str) -> None:
    with World(3, bound_s=BOUND_S) as world:
        world.start(go_on_without_one, how)
        for rank in (0, 2):
            failed, why, after_s = world.answer(rank, 60)
            assert failed == 1
            assert why.startswith("gave no sign of life")
            assert after_s < BOUND_S + SLACK_S
        world.processes[1].kill()


def go_on_without_one(links: Links, how: str) -> Any:
    if links.rank == 1:
        globals()[how]()
    began_s, other = time.monotonic(), 2 - links.rank
    tensors = torch.zeros(3), torch.empty(3)
    try:
        while True:
            links.exchange([(other, tensors[0])], [(other, tensors[1])]).wait()
            time.sleep(0.05)
    except RankFailed as failed:
        return failed.rank, failed.why, time.monotonic() - began_s


def test_a_rank_that_raises_tells_why_at_once() -> None:
    bound_s = 60.0
    with World(3, bound_s=bound_s) as world:
        world.start(raise_in_one)
        for rank in (0, 2):
            failed, why, after_s = world.answer(rank, 60)
            assert (failed, why) == (1, "failed: ValueError('no memory')")
            assert after_s < bound_s / 2
        assert world.answer(1, 60) == "raised"


def raise_in_one(links: Links) -> Any:
    if links.rank == 1:
        try:
            with links:
                fail()
        except ValueError:
            return "raised"
    began_s = time.monotonic()
    try:
        while True:
            links.exchange([], [(1, torch.empty(3))]).wait()
    except RankFailed as failed:
        return failed.rank, failed.why, time.monotonic() - began_s


PROGRAM = """
import os, sys, time
import torch
import torch.distributed as dist
from nearkv.parallel import Links

rank, file = int(sys.argv[1]), sys.argv[2]
if rank == 0:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with open(file + ".unfinished", "w") as port:
        port.write(str(store.port))
    os.rename(file + ".unfinished", file)
else:
    while not os.path.exists(file):
        time.sleep(0.05)
    store = dist.TCPStore("127.0.0.1", int(open(file).read()))
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
with Links(bound_s=60) as links:
    links.gather(torch.ones(1), [1, 1], 0)
    if rank == 1:
        raise ValueError("no memory")
    links.exchange([], [(1, torch.empty(3))]).wait()
"""


def test_a_program_ends_with_its_failure_and_not_by_an_abort(tmp_path: Path) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(tmp_path / "port")],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]
    said = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1], said
    assert "RankFailed: rank 1 failed: ValueError('no memory')" in said[0]


def test_a_rank_that_does_not_come_is_named() -> None:
    with World(1) as world:
        assert world.run(watch_without_the_other) == [(1, "did not come within 0.3 s")]


def watch_without_the_other(links: Links) -> Any:
    try:
        Watch.over(dist.HashStore(), "test", 0, 2, bound_s=0.3)
    except RankFailed as failed:
        return failed.rank, failed.why


def test_links_that_are_closed_say_so() -> None:
    with World(2) as world:
        assert world.run(use_after_closing) == ["these links are closed"] * 2


def use_after_closing(links: Links) -> str:
    with Links() as others:
        assert others.gather(torch.full((1,), links.rank), [1, 1], 0)[1] == 1
    with pytest.raises(RuntimeError) as error:
        others.exchange([], [])
    return str(error.value)
