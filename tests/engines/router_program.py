"""Runs in vLLM's environment: an engine that tells its events, and routers that listen.

Its argument: {"model": FOLDER, "folder": for sockets, "prompts": [[token, ..], ..], "salt",
"algorithm": of the engine's hashes}. Its last line: {"before": blocks of each prompt that the
router knows before the engine has seen any, "after", "late" (of a router that comes after all is
told), "salted", "unsalted" (of the first prompt, which the engine has seen with the salt alone),
"tiers", "other": what a router says that hashes otherwise}.
"""

import time

from program import question, tell
from vllm import LLM, SamplingParams
from vllm_options import small_engine

from nearkv.router import CostModel, EventSubscriber, Router, VllmHashes

WAIT_S = 20
BLOCK_TOKENS = 32


class Listener:
    """A router that hears of one engine."""

    def __init__(self, algorithm: str, config: dict[str, str], seed: str = "") -> None:
        cost = CostModel()
        cost.block_tokens = BLOCK_TOKENS
        self.router = Router(VllmHashes(algorithm, seed), cost=cost)
        self.router.add_worker("engine")
        self.events = EventSubscriber(self.router)
        self.events.add("engine", config["endpoint"], replay_endpoint=config["replay_endpoint"])
        self.events.start()

    def known(self, prompts: list[list[int]], salt: str = "") -> list[int]:
        return [self.router.route(prompt, salt=salt).cached_blocks for prompt in prompts]

    def wait(self, prompts: list[list[int]], salt: str = "") -> list[int]:
        """What is known once it is all there is to know, or WAIT_S have passed."""
        wanted = [len(prompt) // BLOCK_TOKENS for prompt in prompts]
        deadline_s = time.monotonic() + WAIT_S
        while (known := self.known(prompts, salt)) != wanted and time.monotonic() < deadline_s:
            time.sleep(0.05)
        return known


def run(model: str, folder: str, prompts: list[list[int]], salt: str, algorithm: str) -> dict:
    config = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"ipc://{folder}/events",
        "replay_endpoint": f"ipc://{folder}/replay",
    }
    options = {"kv_events_config": config, "prefix_caching_hash_algo": algorithm}
    engine = LLM(model=model, tokenizer=model, **small_engine(options))
    sampling = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)
    listener = Listener(algorithm, config)
    other = Listener(algorithm, config, seed="another")
    answer: dict[str, object] = {"before": listener.known(prompts)}
    salted = [{"prompt_token_ids": prompts[0], "cache_salt": salt}]
    engine.generate(salted, sampling, use_tqdm=False)
    answer["salted"] = listener.wait(prompts[:1], salt)
    answer["unsalted"] = listener.known(prompts[:1])
    engine.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling, use_tqdm=False)
    answer["after"] = listener.wait(prompts)
    answer["tiers"] = [
        tier.name for tier, count in listener.router.route(prompts[0]).prefix.items() if count
    ]
    late = Listener(algorithm, config)
    # Who comes late learns that something is missing by the next batch.
    engine.generate([{"prompt_token_ids": prompts[0][::-1]}], sampling, use_tqdm=False)
    answer["late"] = late.wait(prompts)
    answer["other"] = other.events.counters("engine").mismatch
    for each in (listener, other, late):
        each.events.close()
    engine.llm_engine.engine_core.shutdown()
    return answer


if __name__ == "__main__":
    tell(run(**question()))
