"""A process of the demo that has a model: told what to do by a line of JSON, it answers in such.

Progress goes to stderr. It ends when its input does, so that it never outlives the demo.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nearkv.demo import DemoError
from nearkv.demo.prompt import read_document
from nearkv.demo.question import Question, make_question_prompt, plant
from nearkv.progress import progress


def main() -> int:
    """Does one act; returns the exit status."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        act = {"ask": _ask, "resume": _resume}[request.pop("act")]
        from nearkv.core import Error

        try:
            act(**request)
        except (Error, ValueError) as error:
            raise DemoError(str(error)) from error
    except DemoError as error:
        _tell(error=str(error))
        return 1
    return 0


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


def _tell(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def _load(model: str) -> tuple[Any, Any, float]:
    """Model, tokenizer, and the seconds that they and the libraries took."""
    with progress("loading the model") as work:
        from nearkv.demo import runs

        found = runs.load_model(model, "float32")
    return *found, work.seconds


def _ask(
    *,
    model: str,
    file: str,
    question: dict[str, Any] | None,
    device: str,
    error: float,
    steps: int,
    most_tokens: int | None,
    store: str | None,
) -> None:
    """Act 1, then the second half of act 2 over and over, until the process is killed."""
    document = read_document(Path(file))
    asked = Question(**question) if question else plant(document)
    network, tokenizer, load_s = _load(model)
    from nearkv.demo import ask, restart, runs

    takes = getattr(network.config, "max_position_embeddings", None) or 1 << 20
    most = min(takes - steps, most_tokens or takes)
    if most < 1:
        raise DemoError(f"the model takes {takes} tokens; ask for fewer with --tokens")
    prompt = make_question_prompt(tokenizer, document, asked, most)
    # A model that only recalls lines does not know when to end; a line ends so.
    ends = set(tokenizer(";")["input_ids"]) if asked.needle else runs.end_tokens(network, tokenizer)
    count = len(prompt.tokens) + 2 * steps
    base = runs.open_cache(network.config, device, count, codes=runs.is_fast(device))
    found = ask.ask(network, tokenizer, base, prompt, steps, ends, device, error)
    _tell(
        asked=found.to_json(network, tokenizer, ends)
        | {
            "document_tokens": len(prompt.document),
            "prompt": prompt.tokens,
            "cut": prompt.cut,
            "ends": sorted(ends),
            "asked": asked.text,
            "load_s": load_s,
            "needle": asked.needle and asked.needle.line,
            "right": {
                run.name: asked.is_right(tokenizer.decode(ask.until_end(run.tokens, ends)))
                for run in found.runs
            },
        }
    )
    for run in found.runs[1:]:
        run.cache.close()
    if store is None:
        return
    with restart.opened(Path(store), network.config, count) as prefixes:
        with progress("act 2: keeping the document's K and V in a file"):
            if not prefixes.save(prompt.document, base):
                raise DemoError("the document's K and V could not be kept in the file")
        while True:
            base.close()
            with progress("act 2: asking again (warm start)"):
                start = restart.begin(network, prefixes, base, device, prompt.tokens)
            _tell(ttft_s=start.seconds, reused_tokens=start.reused_tokens)
            for _ in range(steps):
                start.run.step(network)
                _tell(token=start.run.tokens[-1])


def _resume(
    *,
    model: str,
    device: str,
    steps: int,
    store: str,
    prompt: list[int],
    ends: list[int],
    told: list[int],
) -> None:
    """Goes on with an answer of which `told` are the first tokens."""
    network, _, load_s = _load(model)
    from nearkv.demo import restart, runs

    tokens = prompt + told
    with progress("act 2: going on in a new process"):
        start_s = time.perf_counter()
        with restart.opened(Path(store), network.config, len(prompt) + 2 * steps) as prefixes:
            cache = runs.open_cache(network.config, device, len(prompt) + 2 * steps)
            open_s = time.perf_counter() - start_s
            start = restart.begin(network, prefixes, cache, device, tokens)
        while len(told) < steps and start.run.next_token not in ends:
            told.append(start.run.next_token)
            start.run.step(network)
    cache.close()
    _tell(
        tokens=told,
        ttft_s=open_s + start.seconds,
        reused_tokens=start.reused_tokens,
        load_s=load_s,
    )


if __name__ == "__main__":
    sys.exit(main())
