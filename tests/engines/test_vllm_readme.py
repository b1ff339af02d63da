"""vLLM's server as its README says: the lines that a user pastes, run from its text."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.engines.environment import Environment
from nearkv.cluster.client import complete
from nearkv.cluster.processes import Process, answers, free_ports
from nearkv.cluster.workers import SERVING_VARIABLES
from tests.engines.readme import commands, in_folder
from tests.engines.skipping import environment_or_skip
from tests.engines.small_models import SMALL, save_model
from tests.engines.vllm_attention import prompt
from tests.engines.vllm_engines import entry_points_of_the_wheel

# The first makes vLLM's environment.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
PROMPT = prompt(700, 1)
BLOCK_TOKENS = 128
WHOLE_BLOCKS = (len(PROMPT) - 1) // BLOCK_TOKENS * BLOCK_TOKENS
SMALL_SERVER = [
    *("--max-model-len", "2048", "--max-num-seqs", "4", "--enforce-eager"),
    *("--block-size", str(BLOCK_TOKENS), "--no-enable-log-requests"),
]


def shown(about: str) -> list[str]:
    """The command whose words name this."""
    [words] = [
        words
        for words in commands("vllm", "vllm serve MODEL")
        if any(about in word for word in words)
    ]
    return words


@pytest.fixture(scope="module")
def newest() -> Environment:
    return environment_or_skip("vllm", "vLLM")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one KV head, which two ranks would hold twice."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(**SMALL | {"num_key_value_heads": 1, "num_hidden_layers": 2})
    return save_model(tmp_path_factory.mktemp("models") / "one_kv_head", config)


@pytest.fixture(scope="module")
def serve(newest: Environment, model: Path, tmp_path_factory: pytest.TempPathFactory):
    """Serves the model with these words more, where the wheel's entry points are found."""
    wheel = entry_points_of_the_wheel(tmp_path_factory.mktemp("wheel"))
    variables = SERVING_VARIABLES | newest.variables
    variables["PYTHONPATH"] += f":{wheel}"

    @contextmanager
    def serving(words: list[str], folder: Path) -> Iterator[int]:
        (port,) = free_ports(1)
        # What `vllm serve` starts: its build for CPUs lacks metadata that `vllm` itself asks for.
        command = [str(newest.python), "-P", "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(model), *words, *SMALL_SERVER]
        command += ["--served-model-name", "served", "--host", "127.0.0.1", "--port", str(port)]
        with Process("vllm", command, folder, variables) as process:
            process.wait_until(lambda: answers(f"http://127.0.0.1:{port}/health"), 600)
            yield port

    return serving


def tokens_from(port: int, source: str) -> float:
    """Of prompts, as the server's metrics tell."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("vllm:prompt_tokens_by_source_total") and f'source="{source}"' in line
    )


@pytest.fixture(scope="module")
def plain(serve, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a server answers that has nothing of NearKV configured."""
    with serve([], tmp_path_factory.mktemp("plain")) as port:
        return complete(port, "served", PROMPT, 16).text


@pytest.mark.parametrize("about", ["NearKVConnector", "NearKVTier"])
def test_a_later_server_finds_what_an_earlier_one_stored(serve, plain, tmp_path, about):
    words = in_folder(shown(about), tmp_path)[3:]
    for found in (0, WHOLE_BLOCKS):
        with serve(words, tmp_path) as port:
            assert complete(port, "served", PROMPT, 16).text == plain
            # A connector stores what a step computed in the next one.
            complete(port, "served", prompt(20, 2), 2)
            assert tokens_from(port, "external_kv_transfer") == found


SETTINGS = ['"nearkv_attention": {}', '"error": ', "window_tokens", "nearkv_scheduler"]


@pytest.mark.parametrize("about", SETTINGS)
def test_a_server_answers_as_without(serve, plain, tmp_path, about):
    with serve(in_folder(shown(about), tmp_path)[3:], tmp_path) as port:
        answer = complete(port, "served", PROMPT, 16)
    assert answer.completion_tokens == 16
    # Near the data bfloat16 is rounded elsewhere, so that a token may be another.
    assert answer.text == plain or about != "nearkv_scheduler"


def test_ranks_share_the_tokens_of_a_request(serve, plain, tmp_path):
    with serve(shown("--decode-context-parallel-size")[3:], tmp_path) as port:
        assert complete(port, "served", PROMPT, 16).completion_tokens == 16
