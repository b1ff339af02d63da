"""What the programs share that tests run in an engine's environment: JSON in, JSON out.

The question is a program's argument, and the answer the last line that it prints (see
`Environment.run` in bench/engines/environment.py).
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any


def question() -> Any:
    """What the test asks."""
    return json.loads(sys.argv[1])


def tell(answer: Any) -> None:
    """Answers the test."""
    print(json.dumps(answer), flush=True)


def call(functions: Mapping[str, Any], asked: dict[str, Any]) -> Any:
    """What the function gives that `asked` names by "do"; all else in it are its arguments."""
    return functions[asked.pop("do")](**asked)


def each(
    asked: Iterable[Any], answer: Callable[[Any], Any], after: Callable[[], None] | None = None
) -> list[Any]:
    """The answer to each, in their order; {"error"} for one that raised. `after` follows each."""
    answers = []
    for one in asked:
        answers.append(attempt(partial(answer, one)))
        if after:
            after()
    return answers


def attempt(answer: Callable[[], Any]) -> Any:
    """The answer, or {"error"} where it raised."""
    try:
        return answer()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
