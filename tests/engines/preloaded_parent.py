"""Runs in an engine's environment: imports modules, then runs each program in a fork of itself.

Its arguments are the modules. Each line that it reads asks for a program, as `start` takes it. It
writes the number of the program's process, and when that has ended its exit status, a line each.
"""

import gc
import importlib
import json
import os
import runpy
import sys


def start(program: str, argument: str, output: str, errors: str, variables: dict[str, str]) -> None:
    """Goes on as if this process had been started for the program."""
    os.setsid()
    for descriptor, file in enumerate((os.devnull, output, errors)):
        flags = os.O_RDWR | os.O_CREAT
        os.dup2(os.open(file, flags, 0o600), descriptor)
    os.environ.update(variables)
    sys.argv = [program, argument]
    sys.path[0] = os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")


def main() -> None:
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            return start(**json.loads(line))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
