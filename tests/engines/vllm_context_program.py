"""Runs in vLLM's environment: an engine whose ranks share the tokens of requests, or a plain one.

Its argument: {"entry_points": a folder of a distribution's, "model", "batches" of prompts, "tokens"
to generate, "options" of the engine}. Its last line: {"tokens", "logprobs", "cached"} by prompt and
"blocks", how many the engine has; or {"error"}.
"""

import os
import sys

from program import attempt, question, tell
from vllm import LLM, SamplingParams
from vllm_options import small_engine

QUESTION = question()
sys.path.insert(0, QUESTION["entry_points"])
# Workers are processes of their own.
os.environ["PYTHONPATH"] = f"{QUESTION['entry_points']}:{os.environ.get('PYTHONPATH', '')}"


def run() -> dict:
    engine = LLM(model=QUESTION["model"], **small_engine(QUESTION["options"]))
    sampling = SamplingParams(
        temperature=0, max_tokens=QUESTION["tokens"], ignore_eos=True, logprobs=1
    )
    config = engine.llm_engine.vllm_config.cache_config
    told = {"tokens": [], "logprobs": [], "cached": [], "blocks": config.num_gpu_blocks}
    try:
        for batch in QUESTION["batches"]:
            asked = [{"prompt_token_ids": prompt} for prompt in batch]
            for output in engine.generate(asked, sampling, use_tqdm=False):
                (answer,) = output.outputs
                told["tokens"].append(list(answer.token_ids))
                told["cached"].append(output.num_cached_tokens)
                told["logprobs"].append(
                    [
                        step[token].logprob
                        for token, step in zip(answer.token_ids, answer.logprobs, strict=True)
                    ]
                )
    finally:
        engine.llm_engine.engine_core.shutdown()
    return told


if __name__ == "__main__":
    tell(attempt(run))
