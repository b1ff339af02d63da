"""Runs in vLLM's environment: engines one after the other in one process, and what each wrote.

Its argument: {"model": FOLDER, "prompts": [[token, ..], ..], "runs": [options of the engine, ..]}.
Beside vLLM's options a run has "kills" (a process that ends once the engine is there), "cache_salt"
(of its requests), "loads_fail" (of NearKVConnector's worker, all of them), "tells_warnings",
"own_process" (for the engine, as vLLM has it when it serves), "max_tokens", and "looks_at": the
socket of a daemon.
Its last line: for each run {"tokens", "cached"} by prompt (null: it failed), "stored": objects that
the daemon held when the answers were there, "events" if it has a kv_events_config, "replayed" if
that can replay, "metrics" if it logs statistics, "warnings" of NearKV's if it tells them; or
{"error"}.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import msgspec
import zmq
from late_device import HostThatComputes
from program import each, question, tell
from vllm import LLM, SamplingParams
from vllm.outputs import CompletionOutput
from vllm_options import forget_engine, small_engine

MAX_TOKENS = 24


@contextmanager
def subscribed(config: dict | None) -> Iterator[tuple[list[dict], Callable[[], object]]]:
    """A list that has, afterwards, the events that an engine told meanwhile.

    The second waits until the engine's publisher is there: what it tells before is lost.
    """
    events: list[dict] = []
    if config is None:
        yield events, lambda: None
        return
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.connect(config["endpoint"])
        socket.subscribe("")
        yield events, socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED).recv_multipart
        socket.disable_monitor()
        while socket.poll(500):
            _, told, _ = msgspec.msgpack.decode(socket.recv_multipart()[-1])
            events += map(summary_of, told)


def replayed(config: dict) -> list[dict]:
    """The events that a subscriber gets who comes late."""
    events: list[dict] = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(config["replay_endpoint"])
        socket.send_multipart([b"", (0).to_bytes(8, "big")])
        while socket.poll(2000):
            *_, sequence, batch = socket.recv_multipart()
            if int.from_bytes(sequence, "big", signed=True) < 0:
                break
            events += map(summary_of, msgspec.msgpack.decode(batch)[1])
    return events


@contextmanager
def failing_loads(really: bool) -> Iterator[None]:
    """The store takes no loads from NearKVConnector meanwhile."""
    if not really:
        yield
        return
    import _nearkv
    from nkv_abi import Status

    from nearkv.vllm.direct_worker import DirectWorker

    starts = DirectWorker._start

    def start(part, pages, memory, layer, transfer):
        if transfer.is_load:
            _nearkv.check(Status.QUEUE_FULL, "injected")
        return starts(part, pages, memory, layer, transfer)

    DirectWorker._start = staticmethod(start)
    try:
        yield
    finally:
        DirectWorker._start = staticmethod(starts)


@contextmanager
def staged(staging_bytes: int) -> Iterator[HostThatComputes]:
    """Blocks go to and from the store as those of a GPU do, through so many bytes."""
    device = HostThatComputes()
    if not staging_bytes:
        yield device
        return
    from nearkv.vllm.copier import Copier
    from nearkv.vllm.direct import NearKVDirectSpec
    from nearkv.vllm.staging import Staging

    def make_staging(self):
        return Staging(Copier(device, device.swap_blocks_batch), staging_bytes)

    with patch.object(NearKVDirectSpec, "_make_staging", make_staging):
        yield device


@contextmanager
def heard() -> Iterator[list[str]]:
    """A list that has, afterwards, what NearKV warned of meanwhile."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("nearkv").addHandler(handler)
    try:
        yield messages
    finally:
        logging.getLogger("nearkv").removeHandler(handler)


def summary_of(event: dict) -> dict:
    return {
        "type": event["type"],
        "medium": event.get("medium"),
        "hashes": [str(block) for block in event.get("block_hashes", [])],
    }


def tokens_of(completion: CompletionOutput) -> list[int] | None:
    return None if completion.finish_reason == "error" else list(completion.token_ids)


def objects_in(socket: str) -> int:
    from nearkv.store import ObjectStore

    with ObjectStore.connect(socket) as store:
        return store.stats().objects


def run_engine(
    model: str, prompts: list[list[int]], options: dict, await_publisher: Callable[[], object]
) -> dict:
    kills = options.pop("kills", None)
    salt, fails = options.pop("cache_salt", None), options.pop("loads_fail", False)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = str(int(options.pop("own_process", False)))
    looks_at, max_tokens = options.pop("looks_at", None), options.pop("max_tokens", MAX_TOKENS)
    sampling = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    options = small_engine(options)
    engine = LLM(model=model, tokenizer=model, **options)
    await_publisher()
    try:
        if kills is not None:
            os.kill(kills, signal.SIGKILL)
        salted = {} if salt is None else {"cache_salt": salt}
        asked = [{"prompt_token_ids": prompt} | salted for prompt in prompts]
        with failing_loads(fails):
            outputs = engine.generate(asked, sampling, use_tqdm=False)
        stored = None if looks_at is None else objects_in(looks_at)
        # Stores are handed on by later steps.
        engine.generate([{"prompt_token_ids": [5, 6, 7]}], sampling, use_tqdm=False)
        answer = {
            "tokens": [tokens_of(output.outputs[0]) for output in outputs],
            "cached": [output.num_cached_tokens for output in outputs],
        }
        answer |= {} if stored is None else {"stored": stored}
        if "replay_endpoint" in options.get("kv_events_config", {}):
            answer["replayed"] = replayed(options["kv_events_config"])
        if not options["disable_log_stats"]:
            answer["metrics"] = {
                metric.name: metric.value
                for metric in engine.get_metrics()
                if "kv_offload" in metric.name and hasattr(metric, "value")
            }
    finally:
        engine.llm_engine.engine_core.shutdown()
    return answer


def run_watched(model: str, prompts: list[list[int]], options: dict) -> dict:
    config = options.get("kv_events_config")
    staging_bytes = options.pop("staging_bytes", 0)
    tells_warnings = options.pop("tells_warnings", False)
    with (
        subscribed(config) as (events, await_publisher),
        staged(staging_bytes) as device,
        heard() as warnings,
    ):
        answer = run_engine(model, prompts, options, await_publisher)
    answer |= {"copies": device.copies} if staging_bytes else {}
    answer |= {"events": events} if config else {}
    return answer | ({"warnings": warnings} if tells_warnings else {})


if __name__ == "__main__":
    asked = question()
    run = partial(run_watched, asked["model"], asked["prompts"])
    tell(each(asked["runs"], run, forget_engine))
