"""OpenVINO GenAI's continuous batching, whose decode steps are timed.

Runs in OpenVINO's environment. Its argument: {"model": FILE, "threads"}; a GGUF file's weights stay
in the bits that it has them in. Orders:
`fill {"requests", "tokens", "steps"}` computes so many prompts, which decode for so many steps from
then on, and ends others;
`turn {"count"}` decodes so many steps, and answers {"seconds": of each step but the first}.
"""

import json
import sys
from itertools import count
from typing import Any

from bench.engines.orders import serve
from bench.engines.shapes import DOCUMENT, slice_of
from bench.engines.steps import seconds_of_turn
from bench.quiet import as_a_program_of_its_own

as_a_program_of_its_own(json.loads(sys.argv[1])["threads"])

import numpy as np  # noqa: E402
import openvino  # noqa: E402
import openvino_genai  # noqa: E402


class ContinuousBatching:
    """Requests that decode together."""

    def __init__(self, model: str, threads: int) -> None:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = 2048
        scheduler.max_num_seqs = 32
        scheduler.enable_prefix_caching = False
        options = {"INFERENCE_NUM_THREADS": threads}
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", options)
        text = DOCUMENT.read_text(encoding="utf-8")
        self._text = self._pipeline.get_tokenizer().encode(text).input_ids.data[0].tolist()
        self._handles: list[Any] = []
        self._names = count()

    def fill(self, order: dict[str, int]) -> dict[str, Any]:
        """Ends all requests, and computes the prompts of new ones."""
        self._end()
        config = openvino_genai.GenerationConfig()
        config.do_sample = False
        config.ignore_eos = True
        # While other prompts are computed, those that are done decode.
        config.max_new_tokens = order["steps"] + 16 * order["requests"]
        for number in range(order["requests"]):
            prompt = np.array([slice_of(self._text, number, order["tokens"])])
            name = next(self._names)
            self._handles.append(self._pipeline.add_request(name, openvino.Tensor(prompt), config))
        waiting = list(self._handles)
        while waiting:
            self._pipeline.step()
            waiting = [handle for handle in waiting if not handle.can_read()]
        return {}

    def turn(self, order: dict[str, int]) -> dict[str, Any]:
        """Seconds of steps."""
        return {"seconds": seconds_of_turn(order["count"], self._pipeline.step)}

    def close(self) -> None:
        """Ends what still decodes."""
        self._end()

    def _end(self) -> None:
        for handle in self._handles:
            handle.cancel()
        self._handles = []
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    serve(
        lambda: ContinuousBatching(**made),
        {"fill": ContinuousBatching.fill, "turn": ContinuousBatching.turn},
    )
