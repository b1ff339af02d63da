"""Requests that live servers and the simulator both get: the same, at the same times."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench import Context, live
from bench.engines.live_servers import Apart, Steps, cluster_file
from bench.engines.timed_requests import (
    BLOCK_TOKENS,
    TimedRequest,
    make_requests,
    new_request,
    send_in_time,
    write_trace,
)
from bench.programs import Programs
from nearkv.cluster import ClusterError
from nearkv.cluster.client import Answer
from nearkv.cluster.clusters import Cluster

VOCABULARY = range(16, 2048)


def test_a_seed_decides_times_and_lengths_and_blocks_are_new_each_time() -> None:
    first, again = (make_requests(3, 50, 2.0, 400, 32) for _ in range(2))
    assert [one.at_s for one in first] == [one.at_s for one in again]
    assert [one.prompt_tokens for one in first] == [one.prompt_tokens for one in again]
    names = [{name for one in requests for name in one.hash_ids} for requests in (first, again)]
    assert not names[0] & names[1], "what a server has cached of one run is no use to another"
    assert first[-1].at_s == pytest.approx(50 / 2.0, rel=0.5)


def test_prompts_have_equal_tokens_where_the_trace_has_equal_blocks(tmp_path: Path) -> None:
    requests = make_requests(1, 40, 2.0, 400, 32)
    write_trace(requests, tmp_path / "trace.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    by_name: dict[int, list[int]] = {}
    for one, line in zip(requests, lines, strict=True):
        tokens = one.tokens(VOCABULARY)
        assert len(tokens) == line["input_length"]
        assert line["timestamp"] == round(1000 * one.at_s)
        assert len(line["hash_ids"]) == -(-len(tokens) // BLOCK_TOKENS)
        for index, name in enumerate(line["hash_ids"][: len(tokens) // BLOCK_TOKENS]):
            block = tokens[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
            assert by_name.setdefault(name, block) == block
    shared = [line["hash_ids"][0] for line in lines]
    assert len(set(shared)) < len(shared), "some begin with one document"
    assert len({tuple(block) for block in by_name.values()}) == len(by_name)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((time.monotonic(), asked))
        self.send_response(200)
        self.end_headers()
        if asked["max_tokens"] > 100:
            return
        piece = {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
        self.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\ndata: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_requests_go_to_the_servers_in_turn_and_not_before_their_time() -> None:
    requests = [TimedRequest(0.05 * i, (i + 1,), 10 + i, 4) for i in range(6)]
    with serving() as even, serving() as odd:
        begin_s = time.monotonic()
        answers = send_in_time(requests, [even.server_port, odd.server_port], "m", VOCABULARY)
    assert len(answers) == 6
    for server, own in ((even, requests[::2]), (odd, requests[1::2])):
        seen = sorted(server.seen, key=lambda one: len(one[1]["prompt"]))
        assert [len(asked["prompt"]) for _, asked in seen] == [one.prompt_tokens for one in own]
        for (at_s, _), one in zip(seen, own, strict=True):
            assert at_s - begin_s >= one.at_s


def test_one_that_is_not_answered_ends_all() -> None:
    requests = [TimedRequest(0.0, (1,), 10, 999), TimedRequest(3600.0, (2,), 10, 4)]
    with serving() as server, pytest.raises(ClusterError, match="broke off"):
        send_in_time(requests, [server.server_port], "m", VOCABULARY)


@pytest.mark.parametrize("blocks", [8, 20, 30])
def test_a_hand_over_alone_takes_as_long_simulated_as_it_was_measured(
    tmp_path: Path, blocks: int
) -> None:
    pytest.importorskip("nearkv.core", exc_type=ImportError)
    workers = [SimpleNamespace(role=role, port=1) for role in ("prefill", "decode")]
    servers = Apart(cast(Cluster, SimpleNamespace(port=1, workers=workers)))
    prefill = {tokens: 0.01 + tokens / 1e4 for tokens in (8, 64, 512, 520, 1928)}
    steps = Steps(prefill, {1: 0.002, 4: 0.005, 16: 0.008}, {8: 0.05, 30: 0.105})
    (tmp_path / "cluster.toml").write_text(cluster_file(servers, steps))
    tokens = 64 * blocks + 8
    write_trace([new_request(0.0, tokens, 5)], tmp_path / "trace.jsonl")
    words = (tmp_path / "cluster.toml", "--trace", tmp_path / "trace.jsonl")
    report = Programs(Context()).run("traces", *words)["results"]
    handed_s = 0.05 + (blocks - 8) * 0.0025
    assert report["ttft_s"]["p50"] == pytest.approx(0.01 + tokens / 1e4 + handed_s + prefill[8])
    assert report["tpot_s"]["p50"] == pytest.approx(0.002)
    # The one that prefills is the bound.
    assert servers.rate_per_s(steps, 0.5) == pytest.approx(0.5 / (prefill[512] * 416 / 512))


def test_errors_are_the_simulators_beside_what_was_seen() -> None:
    seen = [[Answer("", (0.1, 0.3), 5, 3), Answer("", (0.2, 0.3), 5, 2)]] * 2
    report = {"ttft_s": {"p50": 0.15, "p99": 0.2}, "tpot_s": {"p50": 0.05, "p99": 0.05}}
    results = {one.name: one for one in live._results("light", seen, [report, report])}
    assert results["live/light/ttft_p50"].peer_value == 0.1
    assert results["live/light/ttft_p50"].extra["error_percent"] == [50.0, 50.0]
    assert results["live/light/tpot_p50"].extra["error_percent"] == [-50.0, -50.0]
    assert results["live/light/tpot_p99"].peer_value == pytest.approx(0.1)
    assert results["live/light/ttft_p99"].extra["error_percent"] == [0.0, 0.0]
