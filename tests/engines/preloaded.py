"""An engine's environment whose programs start in processes that have imported the engine.

Importing vLLM takes six seconds of a processor, and most programs that tests run need few more.
"""

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.engines.environment import Environment

_PARENT = Path(__file__).parent / "preloaded_parent.py"


@dataclass(frozen=True)
class _Preloaded(Environment):
    parent: subprocess.Popen[bytes]

    def finished(
        self, program: Path, argument: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """As where each process imports everything itself, but sooner."""
        with tempfile.TemporaryDirectory() as folder:
            output, errors = Path(folder) / "output", Path(folder) / "errors"
            asked = {
                "program": str(program),
                "argument": argument,
                "output": str(output),
                "errors": str(errors),
                "variables": os.environ | self.variables,
            }
            self.parent.stdin.write(json.dumps(asked).encode() + b"\n")
            process_id = int(self.parent.stdout.readline())
            in_time, _, _ = select.select([self.parent.stdout], [], [], timeout_s)
            if not in_time:
                os.killpg(process_id, signal.SIGKILL)
            status = int(self.parent.stdout.readline())
            texts = (file.read_text(errors="replace") for file in (output, errors))
            done = subprocess.CompletedProcess([program, argument], status, *texts)
        if not in_time:
            raise subprocess.TimeoutExpired(done.args, timeout_s, done.stdout, done.stderr)
        return done


@contextmanager
def preloaded(
    environment: Environment, variables: Mapping[str, str], *modules: str
) -> Iterator[Environment]:
    """The environment, with these variables and after these imports, for as long as it is used."""
    with subprocess.Popen(
        [environment.python, _PARENT, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Without buffers, because select() does not see what lies in one.
        bufsize=0,
        env=os.environ | environment.variables | variables,
    ) as parent:
        yield _Preloaded(environment.python, parent)
