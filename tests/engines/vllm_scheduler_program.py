"""Runs in vLLM's environment: engines with one scheduler or another, asked all at once.

Its argument: {"model", "runs": [{"options" of the engine, "loads": [{"warm": prompts asked before,
one by one, "asks": [{"tokens", "most", "extra": sampling's extra_args}]}]}, ..]}. Its last line:
for each run {"scheduler": its class, "loads": [{"tokens", "cached" by ask, "order": the asks as
they got their first tokens, "preempted": how often, "stopped": the asks that were, "left": how
many wait}]}; or {"error"}.
"""

from functools import partial

from program import each, question, tell
from vllm import LLM, SamplingParams
from vllm_options import forget_engine, small_engine


def run(model: str, asked: dict) -> dict:
    llm = LLM(model=model, **small_engine(asked["options"]))
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    try:
        loads = [serve(llm, scheduler, **load) for load in asked["loads"]]
        return {"scheduler": type(scheduler).__name__, "loads": loads}
    finally:
        llm.llm_engine.engine_core.shutdown()


def serve(llm: LLM, scheduler, asks: list[dict], warm: list[list[int]] | None = None) -> dict:
    for prompt in warm or []:
        llm.generate([{"prompt_token_ids": prompt}], SamplingParams(max_tokens=1), use_tqdm=False)
    preempted: list[int] = []
    preempt = type(scheduler)._preempt_request

    def told(request, *arguments, **named):
        preempted.append(int(request.request_id.partition("-")[0]))
        return preempt(scheduler, request, *arguments, **named)

    scheduler._preempt_request = told
    engine = llm.llm_engine
    for number, ask in enumerate(asks):
        sampling = SamplingParams(
            temperature=0, max_tokens=ask["most"], ignore_eos=True, extra_args=ask["extra"]
        )
        engine.add_request(str(number), {"prompt_token_ids": ask["tokens"]}, sampling)
    order, tokens, cached = [], {}, {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            number = int(output.request_id)
            (answer,) = output.outputs
            if answer.token_ids and number not in order:
                order.append(number)
                cached[number] = output.num_cached_tokens
            tokens[number] = list(answer.token_ids)
    assert llm.reset_prefix_cache()
    return {
        "tokens": [tokens[number] for number in range(len(asks))],
        "cached": [cached[number] for number in range(len(asks))],
        "order": order,
        "preempted": len(preempted),
        "stopped": preempted,
        "left": len(scheduler.waiting),
    }


if __name__ == "__main__":
    asked = question()
    tell(each(asked["runs"], partial(run, asked["model"]), forget_engine))
