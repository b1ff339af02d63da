"""SGLang's HiCache on NearKV's storage: its own controllers and host pools, on the CPU."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import ROOT, Environment
from bench.engines.serving import Daemon
from tests.engines.readme import commands, in_folder

# The first makes SGLang's environment.
pytestmark = pytest.mark.timeout(600)
PROGRAM = Path(__file__).parent / "sglang_program.py"


class Refused(Exception):
    """What SGLang raised."""


class SGLang:
    """A process with SGLang's caches, by their names."""

    def __init__(self, environment: Environment) -> None:
        self._process = subprocess.Popen(
            [environment.python, PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment.variables,
        )
        self._count = 0

    def open(self, store: dict[str, Any], **options: Any) -> "Cache":
        """A cache with the README's configuration for storage, but this store."""
        self._count += 1
        cache = Cache(self, f"cache {self._count}")
        cache.open(extra=configured(store), **options)
        return cache

    def ask(self, **question: Any) -> Any:
        """Refused is raised if SGLang raises."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise Refused(answer["error"])
        return answer

    def end(self) -> None:
        """Its input ends, and so does it."""
        self._process.communicate(timeout=60)


class Cache:
    """A cache of SGLang's, of which sglang_program.Cache is asked."""

    def __init__(self, sglang: SGLang, name: str) -> None:
        self._sglang = sglang
        self._name = name

    def __getattr__(self, do: str) -> Any:
        return lambda **arguments: self._sglang.ask(do=do, name=self._name, **arguments)

    def store(self, pages: int, first: int = 0, **more: Any) -> int:
        return self._sglang.ask(do="store", name=self._name, first=first, pages=pages, **more)

    def load(self, pages: int, first: int = 0, **more: Any) -> list[int]:
        return self._sglang.ask(do="load", name=self._name, first=first, pages=pages, **more)

    def v2(self, do: str, wanted: dict[str, list[int]], pages: int = 6, **more: Any) -> Any:
        question = {"first": 0, "pages": pages, "wanted": wanted, **more}
        return self._sglang.ask(name=self._name, do="v2", what=do, **question)


def shown() -> list[str]:
    """The words of the README's command."""
    [words] = commands("sglang", "sglang serve")
    return words


def configured(store: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(shown()[-1])
    del config["uri"]
    del config["hicache_storage_pass_prefix_keys"]  # The engine's arguments; it takes it out.
    return config | store


@pytest.fixture(scope="module")
def sglang(sglang_environment: Environment) -> Iterator[SGLang]:
    process = SGLang(sglang_environment)
    yield process
    process.end()


@pytest.fixture
def store(tmp_path: Path) -> dict[str, Any]:
    return {"uri": f"cpu:{tmp_path}/pool?memory=64MiB"}


def test_another_process_loads_what_one_stored(sglang_environment, sglang, store):
    cache = sglang.open(store)
    assert cache.load(3) == [0, 0, 0]
    assert cache.store(3) == 3
    cache.close()
    later = SGLang(sglang_environment)
    again = later.open(store)
    # Three of five pages are there, and none of a document of other tokens.
    assert again.load(5) == [3, 3, 0]
    assert again.load(5, first=7) == [0, 0, 0]
    again.close()
    later.end()


def test_the_readmes_configuration_works_as_it_stands(sglang, tmp_path):
    uri = json.loads(in_folder(shown(), tmp_path)[-1])["uri"]
    ranks = [sglang.open({"uri": uri}, tp=(rank, 2)) for rank in range(2)]
    assert [rank.store(2) for rank in ranks] == [2, 2]
    assert [rank.load(2) for rank in ranks] == [[2, 2, 0]] * 2
    assert len(list(tmp_path.glob("sglang-*"))) == 2
    for rank in ranks:
        rank.close()


def test_the_readmes_command_is_one_of_sglangs_server(sglang):
    told = sglang.ask(do="parse", words=shown()[2:])
    assert told["enable_hierarchical_cache"] is True
    assert (told["page_size"], told["hicache_mem_layout"]) == (64, "page_first")
    assert told["hicache_storage_backend"] == "dynamic"
    assert json.loads(told["hicache_storage_backend_extra_config"]) == json.loads(shown()[-1])


@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        ("mha", "page_first"),
        ("mha", "page_first_direct"),
        ("mha", "layer_first"),
        ("mha", "page_head"),
        ("mla", "page_first"),
        ("mla", "page_first_direct"),
        ("mla", "layer_first"),
    ],
)
def test_pages_of_every_layout_come_back_bit_for_bit(sglang, store, kind, layout):
    cache = sglang.open(store, kind=kind, layout=layout)
    assert cache.store(4) == 4
    assert cache.load(4) == [4, 4, 0]
    cache.close()


def test_a_prefix_ends_at_the_first_page_that_is_not_there(sglang, store):
    cache = sglang.open(store)
    cache.store(4)
    assert cache.exists(first=0, pages=4, gone=[]) == 4
    assert cache.exists(first=0, pages=4, gone=[2]) == 2
    assert cache.exists(first=0, pages=4, gone=[0]) == 0
    cache.close()


def test_only_caches_that_agree_in_everything_share_pages(sglang, tmp_path):
    with Daemon(tmp_path) as daemon:
        mine = {"socket": daemon.socket}
        cache = sglang.open(mine, tp=(0, 2))
        assert cache.store(3) == 3
        others = [
            ({}, {"tp": (1, 2)}),
            ({}, {"tp": (0, 4)}),
            ({}, {"tp": (0, 2), "pp": (1, 2)}),
            ({}, {"tp": (0, 2), "model": "another"}),
            ({"model_version": "2"}, {"tp": (0, 2)}),
            ({}, {"tp": (0, 2), "dtype": "float16"}),
            ({}, {"tp": (0, 2), "layout": "page_first_direct"}),
            ({}, {"tp": (0, 2), "layout": "page_head"}),
            ({}, {"tp": (0, 2), "kind": "mla"}),
            ({"salt": "other"}, {"tp": (0, 2)}),
        ]
        for settings, options in others:
            other = sglang.open(mine | settings, **options)
            assert other.load(3) == [0, 0, 0], (settings, options)
            other.close()
        # A request's salt is in its hashes.
        assert cache.load(3, salt="a tenant's") == [0, 0, 0]
        # And one that agrees, while the first is still there.
        same = sglang.open(mine, tp=(0, 2))
        assert same.load(3) == [3, 3, 0]
        for each in (cache, same):
            each.close()


@pytest.mark.parametrize("replaced", ["model", "adapter", "draft"])
def test_other_weights_in_the_same_folder_are_another_model(sglang, tmp_path, store, replaced):
    folders = {name: tmp_path / name for name in ("model", "adapter", "draft")}
    for folder in folders.values():
        shutil.copytree(ROOT / "engine_integration" / "models" / "recall_3m", folder)
    served = {name: str(folder) for name, folder in folders.items()}

    def stored_before() -> int:
        cache = sglang.open(store, served=served)
        found, *_ = cache.load(2)
        cache.store(2)
        cache.close()
        return found

    assert [stored_before(), stored_before()] == [0, 2]
    [weights] = folders[replaced].glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[::-1])
    assert [stored_before(), stored_before()] == [0, 2]


def test_a_server_may_name_no_model_and_configure_what_is_its_own(sglang, store):
    cache = sglang.open(store | {"fault_tolerance": {"retries": 3}}, model=None)
    assert cache.store(2) == 2
    assert cache.load(2) == [2, 2, 0]
    cache.close()


def test_tenants_of_one_store_share_nothing(sglang, store):
    for tenant, found in ((1, 0), (2, 0), (1, 2)):
        cache = sglang.open(store | {"tenant": tenant})
        assert cache.load(2) == [found, found, 0]
        cache.store(2)
        cache.close()


def test_ranks_of_an_mla_model_share_what_the_first_wrote(sglang, tmp_path):
    with Daemon(tmp_path) as daemon:
        first, second = (
            sglang.open({"socket": daemon.socket}, kind="mla", tp=(rank, 2)) for rank in range(2)
        )
        assert first.store(2) == 2
        assert second.load(2) == [2, 2, 0]
        for each in (first, second):
            each.close()


def test_a_damaged_page_is_a_miss(sglang, tmp_path, store):
    cache = sglang.open(store)
    cache.store(4)
    sample = bytes.fromhex(cache.sample(first=0, page=2))
    with (tmp_path / "pool").open("r+b") as pool:
        at = pool.read().index(sample)
        pool.seek(at + 100)
        pool.write(b"\0damaged\0")
    # It was found by its key, and does not come.
    assert cache.load(4) == [4, 2, 0]
    # From then on it is not found, until it is stored again.
    assert cache.load(4) == [2, 2, 0]
    assert cache.store(4) == 4
    assert cache.load(4) == [4, 4, 0]
    cache.close()


def test_a_killed_daemon_is_a_miss_until_it_is_there_again(sglang, tmp_path):
    with Daemon(tmp_path) as daemon:
        cache = sglang.open({"socket": daemon.socket})
        cache.add_pools()
        assert cache.store(3) == 3
        daemon.kill()
        assert cache.load(3) == [0, 0, 0]
        assert cache.store(3, first=9) == 0
        assert cache.direct(first=0, pages=2, index_count=128) == [[False] * 2, [False] * 2, 0]
        assert cache.v2("set", {"swa": [0, 1]}) == {"swa": [False, False]}
        assert cache.v2("get", {"swa": [0, 1]}) == [{"swa": [False, False]}, 0]
        assert cache.v2("exists", {"swa": [0]}) == [0, {}, []]
        daemon.start()
        assert cache.load(3) == [3, 3, 0]
        cache.close()


@pytest.mark.long
def test_a_stopped_daemon_is_a_miss_in_time(sglang, tmp_path):
    with Daemon(tmp_path) as daemon:
        cache = sglang.open({"socket": daemon.socket})
        assert cache.store(3) == 3
        daemon.stop()
        try:
            # Sets and gets of pages that are there, without a question before.
            told = cache.direct(first=0, pages=2, index_count=128)
        finally:
            daemon.go_on()
        assert told == [[False] * 2, [False] * 2, 0]
        end_s = time.monotonic() + 30
        while cache.load(3) != [3, 3, 0]:  # Until the daemon is heard again.
            assert time.monotonic() < end_s
        cache.close()


def test_a_full_store_keeps_the_beginning_of_a_document(sglang, tmp_path):
    # 30 pages of 128 KiB, in a store that holds some of them.
    cache = sglang.open({"uri": f"cpu:{tmp_path}/pool?memory=4MiB"})
    # SGLang counts no page of a batch of which some are refused.
    assert cache.store(30) == 0
    hits, loaded, wrong = cache.load(30)
    assert 5 < hits < 30
    assert (loaded, wrong) == (hits, 0)
    cache.close()


def test_indices_that_are_not_those_of_the_pages_are_refused(sglang, store):
    cache = sglang.open(store)
    # Two pages of 64 tokens have not 127 indices, nor those of pages of 32 tokens.
    for count in (127, 64, 0):
        answer = cache.direct(first=0, pages=2, index_count=count)
        assert answer == [[False] * 2, [False] * 2, 0]
    assert cache.direct(first=0, pages=2, index_count=128) == [[True] * 2, [True] * 2, 2]
    cache.close()
    other = sglang.open(store, page_tokens=32)
    assert other.load(4) == [0, 0, 0]
    other.close()


def test_pools_beside_kv_have_pages_of_their_own(sglang, store):
    cache = sglang.open(store)
    cache.add_pools()
    assert cache.v2("set", {"kv": [0, 1, 2, 3, 4], "draft": [0, 1, 2], "swa": [3, 4]}) == {
        "kv": [True] * 5,
        "draft": [True] * 3,
        "swa": [True] * 2,
    }
    # v1 finds what v2 stored.
    assert cache.load(6) == [5, 5, 0]
    loaded = {"kv": [4, 5], "draft": [0, 3], "swa": [2, 3]}
    assert cache.v2("get", loaded) == [
        {"kv": [True, False], "draft": [True, False], "swa": [False, True]},
        0,
    ]
    cache.close()


def test_each_pool_tells_how_far_it_reaches(sglang, store):
    cache = sglang.open(store)
    cache.add_pools()
    cache.v2("set", {"kv": [0, 1, 2, 3, 4], "draft": [0, 1, 2, 3], "swa": [1, 2, 4]})
    # All pages of the draft; of the window but the last two.
    window = {"policy": {"swa": "trailing_pages"}}
    assert cache.v2("exists", {"swa": [0, 1]}, **window) == [3, {"kv": 5, "swa": 3}, [3]]
    assert cache.v2("exists", {"draft": []}) == [4, {"kv": 5, "draft": 4}, [1, 2, 3, 4]]
    both = {"draft": [], "swa": [0]}
    assert cache.v2("exists", both, **window) == [3, {"kv": 5, "draft": 4, "swa": 5}, [2, 3]]
    # Pages in every place: the window's first is missing.
    assert cache.v2("exists", {"swa": []}) == [0, {"kv": 5}, []]
    assert cache.v2("exists", {}) == [5, {"kv": 5}, [1, 2, 3, 4, 5]]
    cache.close()


def test_clear_erases_this_models_pages_and_no_others(sglang, store):
    cache = sglang.open(store)
    cache.store(3)
    cache.close()
    other = sglang.open(store, model="another")
    other.store(3)
    assert other.clear() is True
    assert other.load(3) == [0, 0, 0]
    other.close()
    cache = sglang.open(store)
    assert cache.load(3) == [3, 3, 0]
    cache.close()


WRONG = (
    ({"ury": "cpu:"}, {}, "no option 'ury'; is uri meant?"),
    ({"uri": "cpu:", "interface": 1}, {}, "no option 'interface'; is interface_v1 meant?"),
    ({"uri": "cpu:", "interface_v1": 0}, {}, '"interface_v1": 1'),
    ({"uri": "cpu:pool?memory=64MiB"}, {"tp": (0, 2)}, "put {rank} into the path"),
    ({"uri": "cpu:"}, {"layout": "page_unified"}, "--hicache-mem-layout page_first"),
    (
        {"uri": "cpu:?memory=64MiB"},
        {"page_tokens": 264192, "host_pages": 1},
        "take a smaller --page-size",
    ),
    ({"socket": "/nonexistent/nearkv.sock"}, {}, "/nonexistent/nearkv.sock"),
)


@pytest.mark.parametrize(("settings", "options", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_a_wrong_configuration_is_refused_with_what_is_wrong(sglang, settings, options, said):
    with pytest.raises(Refused, match=re.escape(said)):
        sglang.open(settings, **options)
