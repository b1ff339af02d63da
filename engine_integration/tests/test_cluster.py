"""./nearkv demo cluster: what it asks, what it measures, how its processes end. No engine here."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nearkv.cluster import ClusterError
from nearkv.cluster.__main__ import main
from nearkv.cluster.client import Answer, complete
from nearkv.cluster.conversations import make_conversations
from nearkv.cluster.figures import Phase, format_table, make_results
from nearkv.cluster.load import Turns, run_load
from nearkv.cluster.processes import Process, free_ports
from nearkv.cluster.workers import Engine, scheduling_words, serving_command

pytestmark = pytest.mark.quick
DOCUMENT = "".join(f"line {number} of a document\n" for number in range(1000))


class Server(http.server.ThreadingHTTPServer):
    """Answers completions with these lines, after the status."""

    def __init__(self, lines: list[bytes], status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lines, self.status = lines, status
        self.asked: list[dict] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        self.send_response(self.server.status)
        self.end_headers()
        for line in self.server.lines:
            self.wfile.write(line)
            self.wfile.flush()
            time.sleep(0.001)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(lines: list[bytes], status: int = 200) -> Iterator[Server]:
    with Server(lines, status) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def event(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"text": text}]}).encode() + b"\n\n"


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
WHOLE = [
    *(event("4"), event("8;"), b"data: " + json.dumps(USAGE).encode() + b"\n\n"),
    b"data: [DONE]\n\n",
]


def test_users_share_a_beginning_and_each_prompt_holds_what_was_said() -> None:
    first, second = make_conversations(DOCUMENT, 2, 3, 500, 200, seed=1)
    prompts = []
    for prompt in first.prompts():
        prompts.append(prompt)
        first.answered("12345;")
    assert len(prompts) == 3
    assert prompts[0].startswith(DOCUMENT[:500])
    assert prompts[1].startswith(prompts[0] + "12345;")
    assert next(second.prompts())[:500] == DOCUMENT[:500]
    assert next(second.prompts()) != prompts[0]
    again, _ = make_conversations(DOCUMENT, 2, 3, 500, 200, seed=1)
    assert next(again.prompts()) == prompts[0]


def test_an_answer_is_timed_as_it_comes() -> None:
    with serving(WHOLE) as server:
        answer = complete(server.server_port, "model", "a prompt", 3)
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("48;", 7, 3)
    assert 0 < answer.first_token_s < answer.arrivals_s[1]
    assert answer.per_token_s == pytest.approx((answer.arrivals_s[1] - answer.first_token_s) / 2)
    assert server.asked[0]["temperature"] == 0


def test_tokens_are_asked_for_and_counted_before_they_are_text() -> None:
    with serving([event(""), *WHOLE]) as server:
        answer = complete(server.server_port, "model", [5, 6, 7], 3, ignore_eos=True)
    assert len(answer.arrivals_s) == 3
    assert answer.text == "48;"
    assert server.asked[0]["prompt"] == [5, 6, 7]
    assert server.asked[0]["ignore_eos"] is True


@pytest.mark.parametrize(
    ("lines", "status", "said"),
    [
        (WHOLE[:2], 200, "an answer of 3 characters broke off"),
        (
            [b'data: {"error": {"message": "lost"}}\n\n'],
            200,
            "a request failed: {'message': 'lost'}",
        ),
        ([b"no model"], 404, r"refused \(404\): no model"),
        ([b"data: nonsense\n\n"], 200, "a request was lost"),
    ],
)
def test_an_answer_that_is_none_is_an_error(lines: list[bytes], status: int, said: str) -> None:
    with serving(lines, status) as server, pytest.raises(ClusterError, match=said):
        complete(server.server_port, "model", "a prompt", 3)


def test_half_of_the_turns_is_told_once() -> None:
    conversations = make_conversations(DOCUMENT, 3, 4, 500, 200, seed=1)
    halves = []
    told: list[str] = []
    with serving(WHOLE) as server:
        turns = run_load(
            conversations,
            server.server_port,
            "model",
            3,
            at_half=lambda: halves.append(len(told)),
            tell=told.append,
        )
    assert turns.texts == ["48;"] * 12
    assert len(halves) == 1
    assert told[5] == "6 of 12 turns"


def test_a_lost_turn_ends_the_load() -> None:
    (port,) = free_ports(1)
    conversations = make_conversations(DOCUMENT, 3, 100, 500, 200, seed=1)
    with pytest.raises(ClusterError, match="a request was lost"):
        run_load(conversations, port, "model", 3, at_half=None, tell=lambda _: None)


def sleeper(folder: Path, code: str) -> Process:
    return Process("sleeper", [sys.executable, "-c", code], folder, {})


def test_a_process_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    code = "print('no such model'); raise SystemExit(1)"
    with sleeper(tmp_path, code) as process, pytest.raises(ClusterError, match="no such model"):
        process.wait_until(lambda: False, 30)


def test_cpu_time_is_that_of_all_that_a_process_started(tmp_path: Path) -> None:
    busy = [sys.executable, "-c", "while True: pass"]
    code = f"import subprocess, time; subprocess.Popen({busy!r}); time.sleep(600)"
    with sleeper(tmp_path, code) as process:
        process.wait_until(lambda: process.cpu_s() > 0.3, 60)


def test_a_process_takes_what_it_started_with_it(tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = (
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(child)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    with sleeper(tmp_path, code) as process:
        process.wait_until(lambda: child.exists() and bool(child.read_text()), 30)
        process.kill()
        assert not process.is_running
    stat = Path(f"/proc/{child.read_text()}/stat")
    end_s = time.monotonic() + 30
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < end_s, "it is still there"
        time.sleep(0.01)


def phase(name: str, first_s: float, computed: float) -> Phase:
    answers = {
        (user, turn): Answer(f"{user}{turn}", (first_s, first_s + 0.4), 100, 5)
        for user in range(2)
        for turn in range(2)
    }
    return Phase(name, Turns(answers), computed, 50, 400 - computed - 50, cpu_s=4 * first_s)


def test_figures_stand_beside_each_other() -> None:
    without, with_pool = phase("own caches", 2.0, 300), phase("over a pool", 0.5, 100)
    results = {result.name: result for result in make_results(without, with_pool)}
    assert results["cluster/texts_equal"].met
    assert results["cluster/first_tokens"].value == pytest.approx(2)
    assert results["cluster/first_tokens"].ratio == pytest.approx(4)
    assert results["cluster/later_tokens"].value == pytest.approx(10)
    assert results["cluster/prompt_tokens_not_computed"].value == pytest.approx(0.75)
    assert results["cluster/turns_per_cpu_second"].ratio == pytest.approx(4)
    table = format_table([without, with_pool])
    assert "2,000.0 ms     500.0 ms" in table


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--decode", "1"], "there must be another, or --no-kill"),
        (["--users", "0"], "--users is 0; it must be 1 or more"),
        (["--prefill-from", "0"], "--prefill-from is 0; it must be 1 or more"),
    ],
)
def test_wrong_usage_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(words)
    assert exit_info.value.code == 2
    assert said in capsys.readouterr().err


def test_a_document_that_is_too_short_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    document = tmp_path / "short.txt"
    document.write_text("a word")
    assert main(["--file", str(document)]) == 1
    assert "too short for --shared and --added" in capsys.readouterr().err


@pytest.mark.parametrize("policy", ["fastest", "orca", "agent_steps"])
def test_a_policy_that_workers_cannot_have_is_refused(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("nearkv.core", exc_type=ImportError)
    with pytest.raises(SystemExit) as ended:
        main(["--scheduling", policy])
    assert ended.value.code == 2
    assert policy in capsys.readouterr().err


def test_workers_schedule_as_they_are_told() -> None:
    words = scheduling_words("k_lpm")
    engine = Engine(Path("python"), Path("model"), words)
    command = serving_command(engine, ("127.0.0.1", "1"), ("ipc://a", "ipc://b"), None)
    config = json.loads(command[command.index("--additional-config") + 1])
    assert config == {"nearkv_scheduler": {"policy": "k_lpm"}}
    assert command[command.index("--scheduler-cls") + 1].endswith("NearKVScheduler")


def test_help_needs_nothing_that_is_installed() -> None:
    paths = {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-S", "-m", "nearkv.cluster", "--help"]
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "./nearkv demo cluster" in done.stdout
