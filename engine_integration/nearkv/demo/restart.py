"""Act 2, Pull the plug: K and V in a file, which outlives the process that wrote it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkv.core import Error
from nearkv.demo import DemoError
from nearkv.demo.runs import Run, near_run, token_bytes
from nearkv.store import ObjectStore
from nearkv.transformers import NearKVCache, PrefixStates

_SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class Start:
    """An answer that begins: `seconds` to its first token, the tokens that came from the file."""

    run: Run
    seconds: float
    reused_tokens: int


def store_bytes(config: Any, tokens: int) -> int:
    """What a file for so many tokens may become."""
    return tokens * token_bytes(config) * 5 // 4 + _SPARE_BYTES


@contextmanager
def opened(path: Path, config: Any, tokens: int) -> Iterator[PrefixStates]:
    """Prefixes in a file, which is made if it is not there. DemoError for one that is none."""
    uri = f"cpu:{path}?memory={-(-store_bytes(config, tokens) >> 20)}MiB"
    start = ObjectStore.open if path.exists() else ObjectStore.create
    try:
        store = start(uri)
    except Error as error:
        raise DemoError(
            f"the file with the document's K and V cannot be opened: {error}. Call the demo again: "
            "each call makes a new one"
        ) from error
    with store:
        yield PrefixStates(store.namespace("demo", "bf16"), config)


def begin(
    model: Any, prefixes: PrefixStates, cache: NearKVCache, device: str, tokens: Sequence[int]
) -> Start:
    """Takes what the file has of a prompt into an empty cache, and reads the rest of it."""
    start_s = time.perf_counter()
    reused = prefixes.load(tokens[:-1], cache)
    run = near_run("exact", cache, device)
    run.read(model, tokens[reused:])
    _ = run.next_token
    return Start(run, time.perf_counter() - start_s, reused)
