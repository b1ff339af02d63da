"""./nearkv demo: from the command line to the files it writes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

pytest.importorskip("nearkv.core", exc_type=ImportError)
from bench.result_file import read_results
from nearkv.core import Device, Error
from nearkv.demo import DemoError, figures, processes
from nearkv.demo.__main__ import main
from nearkv.demo.page import heat
from nearkv.demo.processes import ModelProcess, pull_the_plug, scratch_folder
from nearkv.demo.prompt import Needle, draw_needle, make_prompt, read_document
from nearkv.demo.question import (
    ANSWER,
    QUESTION,
    Question,
    built_in_document,
    make_question_prompt,
)
from nearkv.real_models import MODELS, ModelError, fetch_model
from tests.frontdoor.browser import open_page, why_no_browser

MODELS_FOLDER = Path(__file__).parents[1] / "models"
SHIPPED = MODELS_FOLDER / "recall_3m"
needs_shipped_model = pytest.mark.skipif(
    not SHIPPED.is_dir(), reason="the shipped model recall_3m is not in this tree"
)


def to_words(options: dict[str, object]) -> list[str]:
    return [str(word) for pair in options.items() for word in pair]


def start_demo(*arguments: object, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nearkv.demo", *map(str, arguments)]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        command,
        env=os.environ | paths | variables,
        text=True,
        # What a shell runs in its background ignores interrupts, and so do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **pipes,
    )


def run_demo(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    with start_demo(*arguments, **variables) as process:
        out, err = process.communicate(timeout=280)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def files_in(folder: Path) -> dict[str, Path]:
    names = {"json": "new/demo.json", "html": "demo.html", "png": "demo.png"}
    return {f"--{kind}": folder / name for kind, name in names.items()}


@needs_shipped_model
@pytest.mark.default
def test_three_acts_with_the_shipped_model(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    options = {"--model": SHIPPED, "--prompt-tokens": 5000} | files
    times = {"NEARKV_SETUP_S": "12.5", "NEARKV_BUILD_S": "0"}
    done = run_demo(*to_words(options), **times, TMPDIR=str(tmp_path), COLUMNS="50")
    assert done.returncode == 0, done.stderr
    assert "is cut" in done.stderr
    assert max(map(len, done.stdout.splitlines())) <= max(50, len(f"written: {files['--json']}"))
    assert list(tmp_path.glob("nearkv-demo-*")) == []
    summary = read_results(files["--json"]).summary
    assert (summary["setup_s"], summary["build_s"]) == (12.5, 0)
    check_acts(summary)
    check_bytes(files["--json"], 3, 2, 128, 12)
    assert {*summary["texts"].values()} == {summary["needle"].partition("=")[2].rstrip(";")}
    assert Image.open(files["--png"]).size[0] == 1200
    check_page(files["--html"], summary)


def check_acts(summary: dict) -> None:
    """What a stranger was promised."""
    assert summary["tokens_equal"] is True
    assert summary["answer_right"] is True
    assert summary["warm_after_kill"] is True
    assert summary["reused_tokens"] == summary["document_tokens"]
    assert summary["tokens_before_kill"] > 0
    assert 0 < summary["ttft_warm_s"] < summary["ttft_cold_s"]
    assert 0 < summary["ttft_after_kill_s"] < summary["ttft_cold_s"]
    assert summary["run_s"] > summary["ttft_cold_s"]
    errors = summary["errors"]
    assert errors["promised"] == 0.05
    assert 0 < errors["median"] <= errors["largest"]
    assert errors["within"] > 0.9
    assert len(summary["attention"]) == len(summary["pages"])
    assert all(0 <= share <= 1 for share in summary["attention"])


def check_bytes(path: Path, layers: int, kv_heads: int, head_dim: int, queries: int) -> None:
    """Bytes are what the shapes say, and rows and summary agree."""
    file = read_results(path)
    summary = file.summary
    kv_bytes = layers * kv_heads * head_dim * 2 * 2
    tokens = summary["document_tokens"]
    full = summary["full_scan_bytes_per_token"]
    assert kv_bytes * (tokens - 250) < full < kv_bytes * (tokens + 500)
    # Query rows go down in fp32 and as many outputs back, and some for commands. A token's K and V
    # go down once.
    rows_bytes = queries * head_dim * 4 * 2 + kv_bytes
    assert rows_bytes < summary["link_bytes_per_token"] < 1.2 * rows_bytes
    assert 0.5 * full < summary["near_bytes_per_token"] < full
    assert 0.9 < summary["compression_ratio"] < 2
    rows = {row.name: row for row in file.results}
    assert rows["demo/tokens_equal"].met
    assert rows["demo/answer_right"].met
    assert rows["demo/link_bytes_exact"].value == summary["link_bytes_per_token"]
    assert rows["demo/decode_exact"].peer_value == summary["tokens_per_s_plain"]
    assert all(row.device == summary["device"] for row in file.results)
    if "approximate" in summary:
        near = rows["demo/near_bytes_approximate"].value
        assert near < 0.8 * rows["demo/near_bytes_exact"].value


def check_page(path: Path, summary: dict) -> None:
    page = path.read_text()
    for text in summary["texts"].values():
        assert f"<blockquote>{text}</blockquote>" in page
    for title in ("1. Ask", "2. Pull the plug", "3. See"):
        assert f"<h2>{title}" in page
    if not why_no_browser():
        with open_page(path) as shown:
            assert shown.count(".bar") >= 9
            assert shown.count(".document span") == len(summary["pages"])
            assert shown.errors == []
            assert shown.requests == [path.resolve().as_uri()]


@needs_shipped_model
@pytest.mark.default
@pytest.mark.parametrize("device", ["model:", "rtl:?latency=20"])
def test_act_1_alone_on_devices_that_are_slow(tmp_path: Path, device: str) -> None:
    if device.startswith("rtl:"):
        try:
            Device("rtl:?memory=16MiB")
        except Error as error:
            pytest.skip(f"rtl: is not built: {error}")
    file = tmp_path / "demo.json"
    options = {"--model": SHIPPED, "--device": device, "--prompt-tokens": 300, "--json": file}
    done = run_demo(*to_words(options), "--ask-only")
    assert done.returncode == 0, done.stderr
    check_bytes(file, 3, 2, 128, 12)
    summary = read_results(file).summary
    assert summary["tokens_equal"] is True
    assert summary["answer_right"] is True
    assert summary["errors"] is None
    assert "warm_after_kill" not in summary


@pytest.mark.default
def test_three_acts_with_the_real_model(tmp_path: Path) -> None:
    try:
        fetch_model("smollm2")
    except ModelError as error:
        pytest.skip(str(error))
    files = files_in(tmp_path)
    done = run_demo(*to_words(files))
    assert done.returncode == 0, done.stderr
    summary = read_results(files["--json"]).summary
    check_acts(summary)
    check_bytes(files["--json"], 30, 3, 64, 30 * 9)
    assert summary["ttft_after_kill_s"] <= 0.1 * summary["ttft_cold_s"]
    assert summary["model"] == MODELS["smollm2"].title
    assert ANSWER in summary["texts"]["exact"]
    assert 6500 < summary["document_tokens"] < 7500
    # A head looked at a passage with the answer in it, and such are few.
    answers = [at for at, page in enumerate(summary["pages"]) if ANSWER in page]
    most = sorted(range(1, len(summary["pages"])), key=summary["attention"].__getitem__)[-3:]
    assert {*answers} & {*most}
    check_page(files["--html"], summary)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """A token for each byte's character; the shipped one is not always here."""
    from tokenizers import decoders, models, pre_tokenizers

    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bytes_alone = Tokenizer(models.BPE(letters, []))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=bytes_alone)


def save_model(folder: Path, tokenizer: PreTrainedTokenizerFast, **shape: int) -> Path:
    sizes = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
    sizes["max_position_embeddings"] = 8192
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**sizes | heads | shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.default
def test_another_model_and_another_file(tmp_path: Path, tokenizer, capsys) -> None:
    model = save_model(tmp_path / "model", tokenizer)
    (tmp_path / "text").write_text("Größe: 漢字\n" * 40)
    options = {"--model": model, "--file": tmp_path / "text", "--tokens": 70, "--error": 0.1}
    options |= {"--question": "Who?", "--answer": "<nobody>"} | files_in(tmp_path)
    assert main(to_words(options)) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "nearkv demo: the answer is not right"
    summary = read_results(options["--json"]).summary
    assert summary["answer_right"] is False  # Nobody taught this model to answer.
    assert summary["tokens_equal"] is True
    assert summary["warm_after_kill"] is True
    assert summary["errors"]["promised"] == 0.1


@pytest.mark.default
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda f: {"--file": f / "absent"}, "cannot read .*absent: No such file"),
        (lambda f: {"--file": f}, "cannot read .*: Is a directory"),
        (lambda f: {"--file": f / "binary"}, "binary is a binary file"),
        (lambda f: {"--file": f / "latin1"}, "is not UTF-8 .*iconv"),
        (lambda f: {"--file": f / "empty"}, "empty is empty"),
        (lambda f: {"--file": f / "short"}, "give a longer one"),
        (lambda f: {"--model": f / "absent"}, "holds no model: there is no config.json"),
        (lambda f: {"--model": f / "damaged"}, "cannot load a model from"),
        (lambda f: {"--model": f / "narrow"}, "head_dim is 24; .*multiples of 16"),
        (lambda f: {"--device": "nothing:"}, "libnearkv_nothing.so"),
        (lambda f: {"--prompt-tokens": 5}, "the question alone has .* tokens; 5 fit"),
        (
            lambda f: {"--file": f / "long", "--device": "cpu:?memory=2MiB"},
            "appending .* open a larger pool",
        ),
        (lambda f: {"--json": f / "empty" / "demo.json"}, "cannot write .*demo.json"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    demo_inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change, text: str
) -> None:
    options = {"--model": demo_inputs / "model", "--file": demo_inputs / "text", "--tokens": 2}
    options |= {"--question": "Why?"} | files_in(tmp_path)
    assert main(to_words(options | change(demo_inputs))) == 1
    assert re.search(f"^nearkv demo: .*{text}", capsys.readouterr().err.splitlines()[-1])


@pytest.fixture(scope="session")
def demo_inputs(tmp_path_factory: pytest.TempPathFactory, tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    save_model(folder / "model", tokenizer)
    save_model(folder / "narrow", tokenizer, head_dim=24)
    shutil.copytree(folder / "model", folder / "damaged")
    (folder / "damaged" / "model.safetensors").write_bytes(b"nothing")
    (folder / "text").write_text("a line\n" * 100)
    (folder / "long").write_text("a line\n" * 1000)
    (folder / "binary").write_bytes(b"\x7fELF\0\0")
    (folder / "latin1").write_bytes("Größe".encode("latin1"))
    (folder / "empty").write_text(" \n")
    (folder / "short").write_text("a line\n")
    return folder


@pytest.mark.default
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_demo(demo_inputs: Path, tmp_path: Path, way: signal.Signals):
    options = {"--model": demo_inputs / "model", "--file": demo_inputs / "text", "--tokens": 4096}
    words = to_words(options | {"--question": "Why?"} | files_in(tmp_path))
    with start_demo(*words, TMPDIR=str(tmp_path)) as process:
        for line in process.stderr:
            if "reading a document" in line:
                break
        worker = children(process.pid)
        assert len(worker) == 1
        process.send_signal(way)
        process.wait(60)
        deadline_s = time.monotonic() + 5
        while any(is_running(child) for child in worker):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        _, err = process.communicate(timeout=60)
    left = list(tmp_path.glob("nearkv-demo-*"))
    if way == signal.SIGINT:
        assert process.returncode == 130
        assert err.splitlines()[-1] == "nearkv demo: interrupted"
        assert "Traceback" not in err
        assert left == []
    else:
        assert len(left) == 1


def children(process: int) -> list[int]:
    return [
        int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.quick
def test_what_a_killed_demo_left_goes_with_the_next_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "nearkv-demo-left").mkdir()
    (tmp_path / "nearkv-demo-left" / "cache").write_bytes(b"damaged")
    with scratch_folder(1) as first, scratch_folder(1) as second:
        assert {*tmp_path.iterdir()} == {first, second}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.quick
def test_a_full_disk_is_told_before_anything_is_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(DemoError, match=r"MiB of room.*TMPDIR"), scratch_folder(1 << 60):
        pass


@pytest.mark.default
def test_a_file_that_is_no_store_is_told_and_the_next_call_works(
    demo_inputs: Path, tmp_path: Path
) -> None:
    """The second half of act 2, with a file that a power cut left."""
    common = {"model": str(demo_inputs / "model"), "device": "cpu:", "steps": 8}
    asked = common | {"file": str(demo_inputs / "text"), "error": 0.1, "most_tokens": None}
    question = {"text": "Why?", "answer": None}
    store = tmp_path / "cache"
    with ModelProcess(act="ask", **asked, question=question, store=str(store)) as worker:
        act_1 = worker.hear()["asked"]
        answer = act_1["runs"]["exact"]["tokens"]
        _, told = pull_the_plug(worker, answer)
        assert worker._process.returncode == -signal.SIGKILL
    assert told == answer[: len(told)]
    resume = common | {"act": "resume", "prompt": act_1["prompt"], "ends": [], "told": told}
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"\0" * store.stat().st_size)
    with (
        ModelProcess(**resume, store=str(damaged)) as worker,
        pytest.raises(DemoError, match="again"),
    ):
        worker.hear()
    with ModelProcess(**resume, store=str(store)) as worker:
        after = worker.hear()
    assert after["tokens"] == answer
    assert after["reused_tokens"] == act_1["document_tokens"]


@pytest.mark.quick
def test_help_explains_every_flag_before_anything_is_installed() -> None:
    command = [sys.executable, "-S", "-m", "nearkv.demo", "--help"]
    paths = {"PYTHONPATH": str(MODELS_FOLDER.parent)}
    done = subprocess.run(
        command, env=os.environ | paths, capture_output=True, text=True, check=True
    )
    flags = ("file", "question", "answer", "model", "device", "error", "tokens")
    for flag in (*flags, "prompt-tokens", "ask-only", "json", "html", "png"):
        assert re.search(rf"^  --{flag}\b", done.stdout, re.MULTILINE), flag


@pytest.mark.quick
@pytest.mark.parametrize(
    "words",
    [
        *(["--error", "0"], ["--error", "much"], ["--tokens", "none"], ["x"]),
        *(["--answer", "x"], ["--file", "book.txt"]),
    ],
)
def test_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2


@needs_shipped_model
@pytest.mark.default
def test_the_shipped_model_serves_where_the_package_cannot_be_had(tmp_path: Path) -> None:
    nowhere = {"PIP_NO_INDEX": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = run_demo("--ask-only", "--prompt-tokens", 300, **nowhere)
    assert done.returncode == 0, done.stderr
    assert "recall_3m serves instead. It cannot answer questions" in done.stderr
    assert "recall_3m read skarholm-log.txt" in done.stdout.replace("\n", " ")


@pytest.mark.quick
def test_the_document_holds_the_answer_far_from_its_end() -> None:
    text = built_in_document().read_text(encoding="utf-8")
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 90
    assert ANSWER not in QUESTION
    assert 0.2 < text.index(ANSWER) / len(text) < 0.8


@pytest.mark.quick
def test_the_question_comes_after_the_document(tokenizer) -> None:
    document = "A story.\n" * 50
    plain = make_question_prompt(tokenizer, document, Question("Who?", None), 10_000)
    assert tokenizer.decode(plain.tokens) == f"{document.rstrip()}\n\nQuestion: Who?\nAnswer:"
    assert tokenizer.decode(plain.question) == "Question: Who?\nAnswer:"
    cut = make_question_prompt(tokenizer, document, Question("Who?", None), 100)
    assert (len(cut.tokens), cut.cut, plain.cut) == (100, True, False)
    assert cut.question == plain.question


@pytest.mark.quick
def test_a_chat_model_gets_its_own_form_of_a_question(tokenizer) -> None:
    chat = PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer)
    chat.chat_template = "{% for m in messages %}<{{ m.content }}>{% endfor %}bot:"
    prompt = make_question_prompt(chat, "Who? is on first.", Question("Who?", None), 10_000)
    assert chat.decode(prompt.document) == "<Who? is on first.\n\n"
    assert chat.decode(prompt.question) == "Who?>bot:"


@pytest.mark.quick
def test_right_answers() -> None:
    assert Question("Who?", "Anna").is_right("It was ANNA.") is True
    assert Question("Who?", "Anna").is_right("It was Tom.") is False
    assert Question("Who?", None).is_right("It was Tom.") is None
    line = Question("@key=", "123", Needle("key", "123"))
    assert line.is_right("123 ") is True
    assert line.is_right("1234") is False


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"tokens_equal": False}, "differ from the plain"),
        ({"answer_right": False}, "not right"),
        ({"warm_after_kill": False}, "after the kill"),
    ],
)
def test_what_makes_the_demo_fail(wrong: dict[str, bool], text: str) -> None:
    fine = {"tokens_equal": True, "answer_right": None}
    assert figures.failures(fine) == []
    assert figures.failures(fine | {"answer_right": True, "warm_after_kill": True}) == []
    (failure,) = figures.failures(fine | wrong)
    assert text in failure


@pytest.mark.quick
def test_the_first_page_is_no_measure_for_the_others() -> None:
    assert heat([0.9, 0.1, 0.3, 0.2]) == pytest.approx([0, 0, 1, 0.5])
    assert heat([1.0]) == [0]


@pytest.mark.quick
@pytest.mark.parametrize("depth", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("most", [400, 100_000])
def test_the_needle_goes_between_two_lines_at_its_depth(tokenizer, depth: float, most: int) -> None:
    document = "".join(f"line {i}\n" for i in range(100))
    prompt = make_prompt(tokenizer, document, Needle("key", "123"), depth, most)
    text = tokenizer.decode(prompt.tokens)
    assert len(prompt.tokens) <= most
    assert prompt.cut == (most == 400)
    assert tokenizer.decode(prompt.tokens[-prompt.question_tokens :]) == "\n@key="
    assert text.endswith("\n@key=")
    assert text.count("\n@key=123;\n") == 1
    assert abs(prompt.needle_at - depth) < 0.06
    lines = text.replace("@key=123;\n", "").replace("\n@key=", "").strip().splitlines()
    assert lines[:20] == document.splitlines()[:20]


@pytest.mark.quick
def test_the_needle_is_not_in_the_document() -> None:
    needle = draw_needle("", 5)
    other = draw_needle(needle.key, 5)
    assert draw_needle("", 5) == needle
    assert other.key != needle.key


@pytest.mark.quick
def test_documents_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="No such file"):
        read_document(tmp_path / "absent")
    assert len(read_document(built_in_document())) > 25_000
