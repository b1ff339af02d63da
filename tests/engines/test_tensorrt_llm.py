"""TensorRT-LLM's connector on stand-ins of its published interface; TensorRT-LLM was not run."""

import importlib
import json
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from bench.engines.environment import ROOT

torch = pytest.importorskip("torch")
README = ROOT / "engine_integration" / "nearkv" / "tensorrt_llm" / "README.md"
BLOCK_TOKENS = 4
PROMPT = list(range(100, 119))


class _Half:
    """Stands in for either half's base class."""

    def __init__(self, llm_args: Any) -> None:
        self._llm_args = llm_args
        self._metadata: Any = None

    def bind_connector_meta(self, metadata: Any) -> None:
        self._metadata = metadata


@dataclass
class RequestData:
    """As published."""

    request_id: int
    new_tokens: list[int]
    new_block_ids: list[int]
    computed_position: int
    num_scheduled_tokens: int


@dataclass
class SchedulerOutput:
    """As published."""

    new_requests: list[RequestData] = field(default_factory=list)
    cached_requests: list[RequestData] = field(default_factory=list)


def llm_args(**more: Any) -> SimpleNamespace:
    cache = SimpleNamespace(tokens_per_block=BLOCK_TOKENS, dtype="auto")
    known = {"model": "model", "dtype": "bfloat16", "kv_cache_config": cache}
    return SimpleNamespace(
        **(known | {"tensor_parallel_size": 1, "pipeline_parallel_size": 1} | more)
    )


class Engine:
    """A prompt's two steps, in the order of TensorRT-LLM's calls."""

    def __init__(self, connector: SimpleNamespace, args: Any) -> None:
        module = importlib.import_module(connector.connector_module)
        self.scheduler = getattr(module, connector.connector_scheduler_class)(args)
        self.worker = getattr(module, connector.connector_worker_class)(args)
        self.cache = torch.zeros(16, 2, 3, BLOCK_TOKENS, 8, dtype=torch.bfloat16)
        self.worker.register_kv_caches(self.cache)
        self.stream = SimpleNamespace(synchronize=lambda: None)

    def run(self, computed_tokens: int = 0, salt: int | None = None, loses: Any = None) -> int:
        """Tokens that were loaded. What is computed, by place and token, is what is expected."""
        request = SimpleNamespace(request_id=7, get_tokens=lambda beam: PROMPT, cache_salt_id=salt)
        blocks = list(range(3, 3 + -(-len(PROMPT) // BLOCK_TOKENS)))
        loaded, is_async = self.scheduler.get_num_new_matched_tokens(request, computed_tokens)
        assert not is_async
        if loses:
            loses()
        self.scheduler.update_state_after_alloc(request, blocks)
        first = RequestData(7, PROMPT, blocks, computed_tokens, len(PROMPT) - computed_tokens)
        start = computed_tokens + loaded
        self._step(SchedulerOutput(new_requests=[first]), range(start, len(PROMPT)), blocks)
        for position in range(len(PROMPT)):
            assert torch.equal(self._row(position, blocks), self._expected(position)), position
        later = RequestData(7, [5], [], len(PROMPT), 1)
        self._step(SchedulerOutput(cached_requests=[later]), range(0), blocks)
        assert self.scheduler.request_finished(request, blocks) is False
        assert self.worker.get_finished([], []) == ([], [])
        self.cache.zero_()
        return loaded

    def _step(self, output: SchedulerOutput, computed: range, blocks: list[int]) -> None:
        self.worker.bind_connector_meta(self.scheduler.build_connector_meta(output))
        self.worker.start_load_kv(self.stream)
        if output.new_requests:
            for position in range(output.new_requests[0].computed_position):
                self._row(position, blocks).copy_(self._expected(position))
        for layer in range(2):
            self.worker.wait_for_layer_load(layer, self.stream)
            for position in computed:
                self._row(position, blocks)[layer] = self._expected(position)[layer]
            self.worker.save_kv_layer(layer, self.stream)
        self.worker.wait_for_save(self.stream)

    def _row(self, position: int, blocks: list[int]) -> Any:
        return self.cache[blocks[position // BLOCK_TOKENS], :, :, position % BLOCK_TOKENS]

    def _expected(self, position: int) -> Any:
        generator = torch.Generator().manual_seed(position)
        return torch.randn(2, 3, 8, generator=generator).bfloat16()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the README's lines leave: their settings and the connector's configuration."""
    names = [
        "tensorrt_llm",
        "tensorrt_llm.llmapi",
        "tensorrt_llm.llmapi.llm_args",
        "tensorrt_llm._torch",
        "tensorrt_llm._torch.pyexecutor",
        "tensorrt_llm._torch.pyexecutor.kv_cache_connector",
    ]
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules[names[0]].LLM = SimpleNamespace
    sys.modules[names[2]].KvCacheConnectorConfig = SimpleNamespace
    interface = sys.modules[names[-1]]
    interface.KvCacheConnectorScheduler = type("KvCacheConnectorScheduler", (_Half,), {})
    interface.KvCacheConnectorWorker = type("KvCacheConnectorWorker", (_Half,), {})
    interface.SchedulerOutput = SchedulerOutput
    monkeypatch.setenv("NEARKV_TENSORRT_LLM", "")
    lines = re.search(r"\n\n((?:    .*\n|\n)+)", README.read_text())[1]
    left: dict[str, Any] = {"MODEL": "model"}
    exec("\n".join(line[4:] for line in lines.splitlines()), left)
    yield left
    for name in [name for name in sys.modules if name.startswith("nearkv.tensorrt_llm")]:
        del sys.modules[name]


def configure(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    monkeypatch.setenv("NEARKV_TENSORRT_LLM", json.dumps(settings))


def test_the_readmes_lines_name_settings_that_are_known(shown, monkeypatch, daemon):
    assert shown["llm"].kv_connector_config is shown["connector"]
    settings = json.loads(shown["os"].environ["NEARKV_TENSORRT_LLM"])
    configure(monkeypatch, **settings | {"socket": daemon.socket})
    assert Engine(shown["connector"], llm_args()).run() == 0


def test_a_later_engine_loads_all_but_the_block_of_the_last_token(shown, monkeypatch, daemon):
    configure(monkeypatch, socket=daemon.socket)
    assert Engine(shown["connector"], llm_args()).run() == 0
    later = Engine(shown["connector"], llm_args())
    assert later.run() == 16
    # With a prefix in the engine's own cache; with one that ends inside a block.
    assert later.run(computed_tokens=8) == 8
    assert later.run(computed_tokens=9) == 0
    # The store knows which block follows which, and so keeps beginnings for longer than ends.
    keys = sys.modules["nearkv.tensorrt_llm.connector"].keys_of(PROMPT, BLOCK_TOKENS)
    assert later.worker._space.match_prefix(keys) == len(keys)


def test_models_and_salts_share_nothing(shown, monkeypatch, daemon):
    configure(monkeypatch, socket=daemon.socket)
    assert Engine(shown["connector"], llm_args()).run() == 0
    assert Engine(shown["connector"], llm_args(model="another")).run() == 0
    assert Engine(shown["connector"], llm_args()).run(salt=3) == 0
    configure(monkeypatch, socket=daemon.socket, salt="other")
    assert Engine(shown["connector"], llm_args()).run() == 0


def test_a_damaged_block_ends_what_is_found(shown, monkeypatch, daemon):
    configure(monkeypatch, socket=daemon.socket)
    engine = Engine(shown["connector"], llm_args())
    engine.run()
    expected = engine._expected(8)[0, 0].view(torch.uint8).numpy().tobytes()
    with daemon.pool.open("r+b") as pool:
        pool.seek(pool.read().index(expected) + 3)
        pool.write(b"\x55\x55")
    # The third block: it was never promised, and is computed.
    assert engine.run() == 8
    assert engine.run() == 16


def test_without_its_daemon_all_is_computed(shown, monkeypatch, daemon):
    configure(monkeypatch, socket=daemon.socket)
    engine = Engine(shown["connector"], llm_args())
    engine.run()
    daemon.kill()
    assert engine.run() == 0
    daemon.start()
    assert engine.run() == 16


def test_a_promise_that_cannot_be_kept_stops_the_engine(shown, monkeypatch, daemon):
    configure(monkeypatch, socket=daemon.socket)
    engine = Engine(shown["connector"], llm_args())
    engine.run()
    with pytest.raises((RuntimeError, OSError)):
        engine.run(loses=daemon.kill)
    daemon.start()


WRONG = (
    ({"sockets": "x"}, {}, "no option 'sockets'; is socket meant?"),
    ({"uri": "cpu:"}, {}, "give its socket"),
    ({"socket": "x"}, {"tensor_parallel_size": 2}, "for one rank"),
)


@pytest.mark.parametrize(("settings", "args", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_a_wrong_configuration_is_refused(shown, monkeypatch, settings, args, said):
    configure(monkeypatch, **settings)
    with pytest.raises(ValueError, match=re.escape(said)):
        Engine(shown["connector"], llm_args(**args))
