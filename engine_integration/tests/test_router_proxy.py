"""The proxy before engines that behave, die, hang and lie; clients that vanish."""

import asyncio
import errno
import gzip
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from engine_integration.tests.router_scene import (
    CHUNKS,
    PROMPT,
    Scene,
    engines,
    settled,
)
from nearkv.core import Error
from nearkv.kv_events.wire import decode_batch, encode_batch, encode_event
from nearkv.router.config import ConfigError, WorkerConfig, config_of, read_config
from nearkv.router.engines import Engines
from nearkv.router.prompts import BadRequest, tokens_of
from nearkv.router.proxy.forward import EngineFailed


async def test_streams_pass_through_to_where_the_prompt_is() -> None:
    async with Scene(engines("", "", "")) as scene:
        scene.tell("b", PROMPT[:32])
        async with scene.post(stream=True, model="m") as answer:
            assert answer.status == 200
            assert answer.headers["x-nearkv-worker"] == "b"
            assert answer.content_type == "text/event-stream"
            assert await answer.read() == b"".join(CHUNKS)
        assert scene.engines[1].bodies == [
            {"prompt": PROMPT, "stream": True, "model": "m", "return_token_ids": True}
        ]
        await settled(scene)


async def test_the_first_byte_is_not_waited_for_longer_than_the_engine_takes() -> None:
    async with (
        Scene(engines("hangs after its first byte")) as scene,
        scene.post(stream=True) as answer,
    ):
        assert await answer.content.readany() == CHUNKS[0]
        assert scene.loads() == [1]
        assert scene.routed.router.load("a").prefill_tokens == 0
        scene.engines[0].go_on.set()
        assert await answer.content.read() == b"".join(CHUNKS[1:])


async def test_headers_go_on_but_those_of_the_connection() -> None:
    async with Scene(engines("")) as scene:
        headers = {"authorization": "Bearer key", "x-request-id": "7", "accept-encoding": "gzip"}
        async with scene.client.post(
            "/v1/chat/completions?user=1",
            json={"messages": [{"role": "user", "content": "hello"}]},
            headers=headers,
        ) as answer:
            assert await answer.json() == {"id": "a"}
        seen = {name.lower(): value for name, value in scene.engines[0].headers[0].items()}
        assert (seen["authorization"], seen["x-request-id"]) == ("Bearer key", "7")
        assert "accept-encoding" not in seen
        async with scene.client.get("/v1/models") as answer:
            assert (await answer.json())["data"] == [{"id": "a"}]


@pytest.mark.parametrize("behaviour", ["dies before its first byte", "gone"])
@pytest.mark.parametrize("stream", [True, False])
async def test_another_engine_answers_for_one_that_failed(behaviour: str, stream: bool) -> None:
    async with Scene(engines(behaviour, "")) as scene:
        scene.tell("a", PROMPT)
        if behaviour == "gone":
            await scene.engines[0].server.close()
        elif behaviour.startswith("dies") and not stream:
            scene.engines[0].behaviour = "dies"
        async with scene.post(stream=stream) as answer:
            assert (answer.status, answer.headers["x-nearkv-worker"]) == (200, "b")
            whole = await answer.read()
            assert whole == (b"".join(CHUNKS) if stream else b'{"id": "b"}')
        asked = len(scene.engines[0].bodies)
        async with scene.post(stream=stream) as answer:  # It gets nothing new for a while.
            assert answer.headers["x-nearkv-worker"] == "b"
        assert len(scene.engines[0].bodies) == asked
        scene.forgive()
        scene.engines[0].behaviour = ""
        if behaviour != "gone":
            async with scene.post(stream=stream) as answer:
                assert answer.headers["x-nearkv-worker"] == "a"
        await settled(scene)


async def test_an_engine_that_dies_in_its_middle_is_told_as_an_event() -> None:
    async with Scene(engines("dies", "")) as scene:
        scene.tell("a", PROMPT)
        async with scene.post(stream=True) as answer:
            told = await answer.read()
        events = told.split(b"\n\n")
        assert told.startswith(CHUNKS[0])
        assert b"[DONE]" not in told
        error = json.loads(events[-2].removeprefix(b"data: "))["error"]
        assert "engine a ended in the middle" in error["message"]
        assert "send the request again" in error["message"]
        assert not scene.engines[1].bodies
        await settled(scene)


@pytest.mark.parametrize("comes_later", [False, True])
async def test_an_engine_of_which_no_event_comes_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, comes_later: bool
) -> None:
    endpoint = f"ipc://{tmp_path}/nobody"
    both = engines("", "")
    known = ["b"] if comes_later else ["a", "b"]
    options = {"events": {"a": endpoint}, "policy": "round_robin", "configured": known}
    async with Scene(both, **options) as scene:
        if comes_later:
            url = str(both[0].server.make_url(""))
            await scene.routed.add(WorkerConfig("a", url, events=endpoint))
        for _ in range(20):
            async with scene.post() as answer:
                await answer.read()
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith("a has answered 8 prompts")
    assert endpoint in told and "tcp://*:PORT" in told


async def test_an_engine_that_does_not_take_one_request_is_asked_for_the_next() -> None:
    async with Scene(engines("overloaded", "")) as scene:
        scene.tell("a", PROMPT)
        for stream in (True, False):
            async with scene.post(stream=stream) as answer:
                assert (answer.status, answer.headers["x-nearkv-worker"]) == (200, "b")
        scene.engines[0].behaviour = ""
        async with scene.post() as answer:
            assert answer.headers["x-nearkv-worker"] == "a"
        await settled(scene)


@pytest.mark.parametrize("stream", [True, False])
async def test_what_no_engine_takes_is_answered_as_the_last_one_does(stream: bool) -> None:
    async with Scene(engines("overloaded", "overloaded")) as scene:
        async with scene.post(stream=stream) as answer:
            assert (answer.status, await answer.json()) == (503, {"busy": True})
        assert [len(engine.bodies) for engine in scene.engines] == [1, 1]
        async with scene.client.get("/health") as answer:
            assert answer.status == 200
        assert scene.loads() == [0, 0]


async def test_when_all_engines_fail_the_client_learns_what_each_said() -> None:
    async with Scene(engines("dies before its first byte", "dies before its first byte")) as scene:
        async with scene.post(stream=True) as answer:
            assert answer.status == 503
            message = (await answer.json())["error"]["message"]
            assert "a at http" in message and "; b at http" in message
        async with scene.post(stream=True) as answer:
            assert answer.status == 503
            assert "last 600.0 s" in (await answer.json())["error"]["message"]
        async with scene.client.get("/health") as answer:
            assert answer.status == 503
            workers = (await answer.json())["workers"]
            assert [workers[name]["up"] for name in "ab"] == [False, False]
        assert scene.loads() == [0, 0]


async def test_an_engine_that_failed_is_asked_again_after_a_while() -> None:
    async with Scene(engines("dies before its first byte"), suspend_s=0.05) as scene:
        async with scene.post(stream=True) as answer:
            assert answer.status == 503
        scene.engines[0].behaviour = ""
        status = 503
        while status == 503:
            async with scene.client.get("/health") as answer:
                status = answer.status
        async with scene.post() as answer:
            assert answer.status == 200


async def test_an_idle_connection_that_the_engine_ends_is_made_anew() -> None:
    """At the moment at which a request goes out on it; the engine has not begun with that."""
    async with Scene(engines("")) as scene:
        for _ in range(3):
            async with scene.post() as answer:
                assert answer.status == 200
            scene.engines[0].ends_idle = True
        assert len(scene.engines[0].bodies) == 3


@pytest.mark.parametrize(
    ("error", "suspends"),
    [
        (OSError(errno.EMFILE, "too many open files"), False),
        (OSError(errno.EADDRNOTAVAIL, "no port is left"), False),
        (ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens"), True),
        (TimeoutError(), True),
    ],
)
def test_what_fails_in_the_router_itself_suspends_no_engine(
    error: Exception, suspends: bool
) -> None:
    assert EngineFailed.at("http://a", "a", error).suspends == suspends


async def test_a_packed_request_goes_on_unpacked_and_says_so() -> None:
    async with Scene(engines("")) as scene:
        body = gzip.compress(json.dumps({"prompt": PROMPT}).encode())
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        async with scene.client.post("/v1/completions", data=body, headers=headers) as answer:
            assert answer.status == 200
        assert scene.engines[0].bodies == [{"prompt": PROMPT}]
        assert "content-encoding" not in {name.lower() for name in scene.engines[0].headers[0]}


async def test_each_cookie_of_an_engine_arrives() -> None:
    async with Scene(engines("sets cookies")) as scene, scene.post() as answer:
        assert answer.headers.getall("set-cookie") == ["affinity=1", "session=2"]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages", "/v1/of_a_later_version"])
async def test_whatever_is_posted_counts_as_a_prompt(path: str) -> None:
    async with Scene(engines("hangs"), max_running=1) as scene:
        tasks = [asyncio.create_task(scene.status(path, input="x" * 4000)) for _ in range(3)]
        while not scene.engines[0].bodies:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(scene.engines[0].bodies) == 1
        scene.engines[0].go_on.set()
        assert await asyncio.gather(*tasks) == [200] * 3


async def test_what_an_engine_refuses_is_the_clients_fault() -> None:
    async with Scene(engines("refuses", "refuses")) as scene:
        async with scene.post(stream=True) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"]["message"] == "too long"
        assert sum(len(engine.bodies) for engine in scene.engines) == 1


@pytest.mark.parametrize("behaviour", ["hangs", "hangs after its first byte"])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_engine_learns_that_its_client_has_vanished(behaviour: str, stream: bool) -> None:
    async with Scene(engines(behaviour)) as scene:

        async def ask() -> None:
            async with scene.post(stream=stream) as answer:
                await answer.content.readany()
                await answer.read()

        client = asyncio.create_task(ask())
        while not scene.engines[0].bodies:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        if behaviour == "hangs" or stream:
            assert scene.loads() == [1]
            client.cancel()
            await scene.engines[0].closed_early.wait()
        await settled(scene)


async def test_a_hundred_clients_that_vanish_leave_no_load() -> None:
    hanging = engines("hangs after its first byte", "hangs")
    # On a machine that is busy, some of a hundred connections take longer than the scene's 2 s.
    async with Scene(hanging, policy="least_load", connect_timeout_s=30.0) as scene:

        async def ask(number: int) -> None:
            async with scene.post(stream=True) as answer:
                await answer.content.readany()

        clients = [asyncio.create_task(ask(number)) for number in range(100)]
        for number, client in enumerate(clients):
            if number % 3:
                client.cancel()
            await asyncio.sleep(0.002)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await settled(scene)
        async with scene.client.get("/health") as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("body", "mend"),
    [
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1]", "JSON object with 'prompt' or 'messages'"),
        (b"{}", "'prompt' is a text, or a list of token ids"),
        (b'{"prompt": [1, -1]}', "from 0 to 2"),
        (b'{"prompt": [[1, "x"]]}', "from 0 to 2"),
        (b'{"messages": "hello"}', "list of at least one message"),
    ],
)
async def test_what_is_no_request_is_refused_here(body: bytes, mend: str) -> None:
    async with Scene(engines("")) as scene:
        async with scene.client.post("/v1/completions", data=body) as answer:
            assert answer.status == 400
            error = (await answer.json())["error"]
            assert (error["type"], mend in error["message"]) == ("invalid_request_error", True)
        assert not scene.engines[0].bodies


HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"POST\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        HEAD + b"Content-Length: many\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        HEAD + b"A header without a colon\r\n\r\n",
        HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
        HEAD + b"Content-Length: 100\r\n\r\n{",
        HEAD,
    ],
)
async def test_what_is_no_http_is_400_or_nothing_and_the_next_is_served(sent: bytes) -> None:
    async with Scene(engines("")) as scene:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.server.port)
        writer.write(sent)
        writer.write_eof()  # Also a request that is not whole ends so.
        told = await reader.read()
        writer.close()
        assert not told or told.split(b" ")[1] == b"400", told
        assert not scene.engines[0].bodies
        async with scene.post() as answer:
            assert answer.status == 200
        await settled(scene)


async def test_a_policy_that_refuses_is_429() -> None:
    async with Scene(engines(""), policy="mooncake", ttft_slo_s=0.01) as scene:
        async with scene.post(prompt=list(range(4000))) as answer:
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
            assert (await answer.json())["error"]["type"] == "rate_limit_error"
        async with scene.post(prompt=[1]) as answer:
            assert answer.status == 200


class WordTokenizer:
    def encode(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    def get_chat_template(self, chat_template: str | None, tools: Any) -> str:
        return ""

    def apply_chat_template(self, conversation: Any, **options: Any) -> list[int]:
        assert options["tokenize"] and not options["return_dict"]
        return self.encode(" ".join(message["content"] for message in conversation))


def test_prompts_become_tokens_as_far_as_they_can() -> None:
    words = WordTokenizer()
    assert tokens_of({"prompt": "a bc def"}, words) == [1, 2, 3]
    assert tokens_of({"prompt": ["a bc", "x"]}, words) == [1, 2]
    assert tokens_of({"prompt": [[7, 8], [9]]}, None) == [7, 8]
    assert tokens_of({"messages": [{"role": "user", "content": "a bc"}]}, words) == [1, 2]
    assert tokens_of({"prompt_embeds": "A" * 80_000}, words) == 9
    assert tokens_of({"prompt": "x" * 400}, None) == 100
    assert tokens_of({"messages": [{"content": [{"type": "image_url"}]}]}, words) >= 1
    with pytest.raises(BadRequest):
        tokens_of({"prompt": []}, words)


WORKER = "[[worker]]\nname = 'a'\nurl = 'http://a:1'\n"


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("listen", "no TOML"),
        ("listen = 'x:1'", "at least one engine"),
        ("[discovery]\netcd = 'a:2379'", "http://host:2379"),
        ("[discovery]\ncluster = 'a/b'", "without '/'"),
        ("[discovery]\nclusters = 'a'", "no key 'clusters'"),
        ("discovery = 'a'", "is a table"),
        ("[[worker]]\nurl = 'http://a:1'", "needs a name"),
        ("[[worker]]\nname = 'a'", "http://host:8000"),
        ("[worker]\nname = 'a'", "two brackets"),
        ("port = 1\n[[worker]]\nname = 'a'\nurl = 'http://a:1'", "no key 'port'"),
        ("block_tokens = '4'\n[[worker]]\nname = 'a'\nurl = 'http://a:1'", "is a int"),
        ("listen = '8080'\n[[worker]]\nname = 'a'\nurl = 'http://a:1'", "HOST:PORT"),
        ("[[worker]]\nname = 'a'\nurl = 'http://a:1'\n[[pool]]\nname = 'p'", "computes nothing"),
        ("[[worker]]\nname = 'a'\nurl = 'http://a:1'\npool = 'p'", "no \\[\\[pool\\]\\] 'p'"),
        (f"{WORKER}[[pool]]\nname = 'p'\nevents = 'tcp://a:1'\ncapacity_bytes = -1", "or more"),
        (f"tiers = 'cxl'\n{WORKER}", "\\[tiers\\] is a table"),
        (f"{WORKER}[tiers.hbm]\nweight = 1", "no key 'hbm'; there are gpu, dram, cxl, shared"),
        (f"{WORKER}[tiers.cxl]\nwieght = 1", "no key 'wieght'; there are weight"),
        (f"{WORKER}[tiers.cxl]\nweight = '1'", "weight is a float"),
        (f"{WORKER}[cost]\nblock_tokens = 16", "no key 'block_tokens'"),
        (f"{WORKER}[dynamo]\nheat = 1", "no key 'heat'; there are .*temperature"),
        (f"{WORKER}[mooncake]\nttft_slo_s = 1", "there are kvcache_balancing_threshold"),
        (f"{WORKER}[media]\nFLOPPY = 'slow'", "FLOPPY is in one of gpu, dram, cxl, shared"),
        (
            "[[worker]]\nname = 'a'\nurl = 'http://a:1'\n[[worker]]\nname = 'a'\nurl = 'http://b:1'",
            "differ from each other",
        ),
    ],
)
def test_a_bad_configuration_names_its_mend(tmp_path: Any, text: str, mend: str) -> None:
    file = tmp_path / "router.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=mend):
        read_config(file)


def test_the_files_tiers_and_weights_decide() -> None:
    def chosen(**options: Any) -> str:
        workers = [{"name": name, "url": f"http://{name}:1"} for name in ("a", "b")]
        table = {"scheme": "sglang", "block_tokens": 4, "worker": workers}
        routed = Engines(config_of(table | options), None)
        for name, blocks, medium in (("a", 3, "HBF"), ("b", 2, "GPU")):
            tokens = list(range(4 * blocks))
            hashes = [int(each) for each in routed.router.block_hashes(tokens)]
            fields = {"block_hashes": hashes, "token_ids": tokens, "block_size": 4}
            event = encode_event("BlockStored", "map", medium=medium, **fields)
            routed.router.apply(name, decode_batch(encode_batch([event])))
        return routed.router.route(list(range(40))).worker

    media = {"media": {"hbf": "cxl"}}
    assert chosen(policy="longest_prefix", **media) == "a"
    assert chosen(policy="longest_prefix", tiers={"cxl": {"weight": 0.5}}, **media) == "b"
    assert chosen(policy="least_ttft", **media) == "a"
    assert chosen(policy="least_ttft", tiers={"cxl": {"latency_s": 1}}, **media) == "b"
    assert chosen(policy="least_ttft", cost={"prefill_tokens_per_s": 1e6}, **media) == "b"
    assert chosen(policy="dynamo", dynamo={"disk_cache_hit_weight": 1}, **media) == "a"
    assert chosen(policy="dynamo", dynamo={"disk_cache_hit_weight": 0}, **media) == "b"
    with pytest.raises(Error, match="weights 0 to 1"):
        chosen(tiers={"cxl": {"weight": 2}}, **media)


def test_the_readmes_configuration_is_one(tmp_path: Any) -> None:
    from nearkv.router import proxy

    readme = (proxy.__path__[0]) + "/README.md"
    with open(readme, encoding="utf-8") as text:
        block = text.read().split("```toml\n")[1].split("```")[0]
    file = tmp_path / "router.toml"
    file.write_text(block)
    config = read_config(file)
    assert [worker.name for worker in config.workers] == ["a", "pool"]


def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = tmp_path / "router.toml"
    file.write_text(
        f"listen = '127.0.0.1:{port}'\n[[worker]]\nname = 'a'\nurl = 'http://127.0.0.1:9'\n"
        f"events = 'ipc://{tmp_path}/events'\n"
    )
    command = [sys.executable, "-m", "nearkv.router", str(file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        answers = []
        for _ in range(400):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    answers.append(json.load(answer))
                break
            except OSError:
                time.sleep(0.1)
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert answers[0]["workers"]["a"]["up"]
    file.write_text("policy = 'fastest'\n[[worker]]\nname = 'a'\nurl = 'http://127.0.0.1:9'\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "longest_prefix" in done.stderr.splitlines()[0]
