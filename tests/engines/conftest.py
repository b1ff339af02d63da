"""What tests of serving engines share: a small model, and the engines' environments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.compatibility import Recorder
from tests.engines.environment import Environment, environment_or_skip
from tests.engines.serving import Daemon
from tests.engines.vllm_engines import versions


def pytest_configure(config: pytest.Config) -> None:
    """Records what passes with which engine; one process does for all."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.fixture(scope="session")
def small_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of random weights, whose attention matters, with a tokenizer of 512 words."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("models") / "small_llama"
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config).float()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() == 2:
                weights.normal_(0, 0.15)
    model.save_pretrained(folder)
    words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i + 3 for i in range(509)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", params=versions())
def vllm(request: pytest.FixtureRequest) -> Environment:
    """vLLM for the CPU, every version; tests of fewer have parameters of their own."""
    return environment_or_skip(request.param, "vLLM")


@pytest.fixture(scope="session")
def lmcache() -> Environment:
    """LMCache."""
    return environment_or_skip("lmcache", "LMCache")


@pytest.fixture(scope="session")
def lmcache_vllm() -> Environment:
    """vLLM with what LMCache's server wants of an engine."""
    return environment_or_skip("lmcache_vllm", "vLLM with LMCache")


@pytest.fixture(scope="session")
def sglangenvironment_or_skip() -> Environment:
    """SGLang without its kernels."""
    return environment_or_skip("sglang", "SGLang")


@pytest.fixture(scope="session")
def nixl() -> Environment:
    """NIXL."""
    return environment_or_skip("nixl", "NIXL")


@pytest.fixture(scope="session")
def llama_cpp() -> Environment:
    """llama.cpp for the CPU, which is built if it is not there."""
    return environment_or_skip("llama_cpp", "llama.cpp")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that any engine of this user may use."""
    with Daemon(tmp_path) as running:
        yield running
