"""./nearkv demo: from the command line to the files it writes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Device, Error
from nearkv.demo import DemoError
from nearkv.demo.__main__ import main
from nearkv.demo.prompt import Needle, draw_needle, make_prompt, read_document
from nearkv.doctor import find_chromium
from nearkv.results import read_results
from tests.frontdoor.browser import open_page

MODELS = Path(__file__).parents[1] / "models"
SHIPPED = MODELS / "recall_3m"
DOCUMENT = MODELS / "documents" / "postgresql-high-availability.txt"
needs_shipped_model = pytest.mark.skipif(
    not SHIPPED.is_dir(), reason="the shipped model recall_3m is not in this tree"
)


def to_words(options: dict[str, object]) -> list[str]:
    return [str(word) for pair in options.items() for word in pair]


def start_demo(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nearkv.demo", *map(str, arguments)]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | paths, text=True, **pipes)


def run_demo(*arguments: object) -> subprocess.CompletedProcess[str]:
    with start_demo(*arguments) as process:
        out, err = process.communicate(timeout=280)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@needs_shipped_model
@pytest.mark.default
@pytest.mark.parametrize(
    ("device", "prompt_tokens", "tokens"), [("cpu:", 8000, 16), ("model:", 700, 6)]
)
def test_the_whole_demo(tmp_path: Path, device: str, prompt_tokens: int, tokens: int) -> None:
    files = {"--json": tmp_path / "new" / "demo.json", "--html": tmp_path / "demo.html"}
    options = {"--device": device, "--prompt-tokens": prompt_tokens, "--tokens": tokens, **files}
    done = run_demo(*to_words(options))
    assert done.returncode == 0, done.stderr
    check_figures(files["--json"], device, prompt_tokens)
    summary = read_results(files["--json"]).summary
    assert summary["needle"] in done.stdout
    assert "is cut" in done.stderr
    page = files["--html"].read_text()
    for text in summary["texts"].values():
        assert f"<pre>{text}</pre>" in page
    if chromium := find_chromium():
        with open_page(chromium, files["--html"]) as shown:
            shown.wait_for("canvas.bk-layer", at_least=3)
            assert shown.errors == []
            assert shown.requests == [files["--html"].resolve().as_uri()]


@needs_shipped_model
@pytest.mark.default
def test_the_simulated_engine_writes_the_same_tokens(tmp_path: Path) -> None:
    try:
        Device("rtl:?memory=16MiB")
    except Error as error:
        pytest.skip(f"rtl: is not built: {error}")
    options = {"--device": "rtl:?latency=20", "--prompt-tokens": 300, "--tokens": 4}
    done = run_demo(*to_words(options | {"--json": tmp_path / "demo.json"}))
    assert done.returncode == 0, done.stderr
    summary = read_results(tmp_path / "demo.json").summary
    assert summary["tokens_equal"] is True
    assert summary["near_bytes_per_token"] > 0


@needs_shipped_model
@pytest.mark.long
def test_the_whole_demo_as_it_ships(tmp_path: Path) -> None:
    done = run_demo("--json", tmp_path / "demo.json")
    assert done.returncode == 0, done.stderr
    check_figures(tmp_path / "demo.json", "cpu:", 27_000)


def check_figures(path: Path, device: str, prompt_tokens: int) -> None:
    file = read_results(path)
    summary = json.loads(path.read_text())
    assert summary["tokens_equal"] is True
    assert summary["needle_found"] is True
    # 3 layers of 2 KV heads of 128 channels; all but the newest tokens are in the pool.
    kv_bytes = 3 * 2 * 128 * 2 * 2
    full = summary["full_scan_bytes_per_token"]
    assert kv_bytes * (prompt_tokens - 250) < full < kv_bytes * (prompt_tokens + 500)
    assert summary["link_bytes_per_token_baseline"] == full
    # Per layer: 4 query rows of 128 down in fp32, as many back, and some for commands.
    # A token's K and V go down once.
    rows_bytes = 3 * 4 * 128 * 4 * 2 + kv_bytes
    assert rows_bytes < summary["link_bytes_per_token"] < 1.2 * rows_bytes
    assert 0.5 * full < summary["near_bytes_per_token"] < full
    assert 0.9 < summary["compression_ratio"] < 2
    assert summary["tokens_per_s"] > 0
    assert summary["tokens_per_s_plain"] > 0
    rows = {row.name: row for row in file.results}
    modes = ("dense", "tail", "bounded") if device == "cpu:" else ("dense",)
    for mode in modes:
        assert {f"demo/{what}_{mode}" for what in ("link_bytes", "near_bytes", "decode")} <= {*rows}
        near = rows[f"demo/near_bytes_{mode}"]
        assert sum(near.extra.values()) == pytest.approx(near.value)
    assert rows["demo/tokens_equal_dense"].met
    assert rows["demo/link_bytes_dense"].value == summary["link_bytes_per_token"]
    assert rows["demo/decode_dense"].peer_value == summary["tokens_per_s_plain"]
    assert all(row.device == device for row in file.results)
    if "tail" in modes:
        assert rows["demo/near_bytes_tail"].value < 0.5 * rows["demo/near_bytes_dense"].value


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
    options = {"--model": model, "--file": tmp_path / "text", "--tokens": 70, "--mode": "bounded"}
    options |= {"--error": 0.1, "--json": tmp_path / "demo.json"}
    assert main(to_words(options)) == 0
    assert "from 16,384 on" in capsys.readouterr().err
    summary = read_results(tmp_path / "demo.json").summary
    assert summary["mode"] == "bounded"
    assert summary["needle_found"] is False  # Nobody taught this model to recall.


@pytest.mark.default
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda f: {"--file": f / "absent"}, "cannot read .*absent: No such file"),
        (lambda f: {"--file": f}, "cannot read .*: Is a directory"),
        (lambda f: {"--file": f / "binary"}, "binary is a binary file"),
        (lambda f: {"--file": f / "latin1"}, "is not UTF-8 .*iconv"),
        (lambda f: {"--file": f / "empty"}, "empty is empty"),
        (lambda f: {"--file": f / "short"}, "give a longer document"),
        (lambda f: {"--model": f / "absent"}, "holds no model: there is no config.json"),
        (lambda f: {"--model": f / "damaged"}, "cannot load a model from"),
        (lambda f: {"--model": f / "narrow"}, "head_dim is 24; .*multiples of 16"),
        (lambda f: {"--device": "nothing:"}, "libnearkv_nothing.so"),
        (
            lambda f: {"--file": f / "long", "--device": "cpu:?memory=2MiB"},
            "appending .* open a larger pool",
        ),
        (lambda f: {"--json": f / "empty" / "demo.json"}, "cannot write .*demo.json"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    demo_inputs: Path, capsys: pytest.CaptureFixture[str], change, text: str
) -> None:
    options = {"--model": demo_inputs / "model", "--file": demo_inputs / "text", "--tokens": 2}
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
def test_ctrl_c_ends_it_cleanly(demo_inputs: Path) -> None:
    options = ("--model", demo_inputs / "model", "--file", demo_inputs / "text", "--tokens", 4096)
    with start_demo(*options) as process:
        for line in process.stderr:
            if "moving K and V" in line:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "nearkv demo: interrupted"
    assert "Traceback" not in err


@pytest.mark.quick
def test_help_explains_every_flag_before_anything_is_installed() -> None:
    command = [sys.executable, "-S", "-m", "nearkv.demo", "--help"]
    paths = {"PYTHONPATH": str(MODELS.parent)}
    done = subprocess.run(
        command, env=os.environ | paths, capture_output=True, text=True, check=True
    )
    flags = ("file", "model", "dtype", "device", "mode", "top-k", "error", "tokens")
    for flag in (*flags, "prompt-tokens", "depth", "seed", "json", "html"):
        assert re.search(rf"^  --{flag} ", done.stdout, re.MULTILINE), flag


@pytest.mark.quick
@pytest.mark.parametrize(
    "words", [["--depth", "2"], ["--error", "0"], ["--tokens", "none"], ["--mode", "fast"], ["x"]]
)
def test_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2


@pytest.mark.quick
@pytest.mark.parametrize("depth", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("most", [400, 100_000])
def test_the_needle_goes_between_two_lines_at_its_depth(tokenizer, depth: float, most: int) -> None:
    document = "".join(f"line {i}\n" for i in range(100))
    prompt = make_prompt(tokenizer, document, Needle("key", "123"), depth, most)
    text = tokenizer.decode(prompt.tokens)
    assert len(prompt.tokens) <= most
    assert prompt.cut == (most == 400)
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
    assert needle.answered_by(f"{needle.value};\nand more")
    assert not needle.answered_by(f"{needle.value}1;")


@pytest.mark.quick
def test_documents_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="No such file"):
        read_document(tmp_path / "absent")
    assert len(read_document(DOCUMENT)) > 50_000
