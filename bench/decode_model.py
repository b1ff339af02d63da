"""What decode steps of several batches tell together: a model of their time, and their memory."""

from collections.abc import Iterable, Iterator

from nearkv.results import Goal, Result

_MODEL_ERROR = 0.15
"""A guess of a step's time helps as long as it is this near."""
_MEMORY = 1.1


def with_what_they_tell(
    engine: str, threads: int, batches: Iterable[Iterable[Result]]
) -> Iterator[Result]:
    """Yields all results, and then what those of one engine's steps in place tell together."""
    steps = []
    for results in batches:
        for result in results:
            if "rest_ms" in result.extra:
                steps.append(result)
            yield result
    largest = max(steps, key=lambda step: step.extra["kv_bytes_per_step"])
    yield _memory(f"decode/{engine}_kv_memory_threads{threads}", largest, steps)
    others = [step for step in steps if step is not largest]
    if others and "gb_per_s" in largest.extra:
        yield time_model(f"decode/{engine}_time_model_threads{threads}", largest, others)


def time_model(name: str, largest: Result, others: list[Result]) -> Result:
    """How far `rest + KV bytes / bandwidth` is from other batches' steps, in parts of each.

    The bandwidth is what attention in the `largest` batch read at, and nothing is fitted to the
    others; `rest` is each batch's own step without attention. The value is the worst of the errors.
    """
    gb_per_s = largest.extra["gb_per_s"]
    errors = {}
    for step in others:
        of = step.extra
        predicted_ms = of["rest_ms"] + of["kv_bytes_per_step"] / gb_per_s / 1e6
        errors[step.name.rpartition("/")[2]] = predicted_ms / of["step_ms"] - 1
    return Result(
        name=name,
        value=max(map(abs, errors.values())),
        unit="of a step",
        goal=Goal("<=", _MODEL_ERROR),
        extra={"gb_per_s": gb_per_s} | errors,
    )


def _memory(name: str, largest: Result, steps: list[Result]) -> Result:
    """K and V of the largest batch with all that the process grew by to attend in place."""
    kv_bytes = largest.extra["kv_bytes_per_step"]
    grown_bytes = sum(step.extra["grown_bytes"] for step in steps)
    return Result(
        name=name,
        value=1 + grown_bytes / kv_bytes,
        unit="of K and V",
        goal=Goal("<=", _MEMORY),
        extra={"kv_bytes": kv_bytes, "grown_bytes": grown_bytes},
    )
