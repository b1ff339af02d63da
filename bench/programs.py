"""The executables that measure, and what they write."""

import importlib.util
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import Context


class Programs:
    """The executables that measure, from the build that this Python's binding comes from."""

    def __init__(self, context: Context) -> None:
        self._context = context
        binding = importlib.util.find_spec("_nearkv")
        if binding is None or binding.origin is None:
            raise FileNotFoundError("nothing is built; ./nearkv build")
        self._folder = Path(binding.origin).parents[1] / "bench"

    @property
    def tool(self) -> Path:
        """`nearkv`, of the same build."""
        return self._folder.with_name("bin") / "nearkv"

    def path(self, name: str) -> Path:
        """Of nearkv_NAME_bench, nearkv_replay or nearkv_plan."""
        if name == "plan":
            return self._folder / "traces" / "nearkv_plan"
        program = "nearkv_replay" if name == "replay" else f"nearkv_{name}_bench"
        return self._folder / name / program

    def run(self, name: str, *arguments: str | Path) -> Any:
        """What the program writes with --json. What it says goes to the person who waits."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            command = [str(self.path(name)), "--json", str(file), *map(str, arguments)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                said = 0.0
                for line in process.stdout:
                    if time.monotonic() - said > 2:
                        self._context.progress(" ".join(line.split()))
                        said = time.monotonic()
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command)
            return json.loads(file.read_text(encoding="utf-8"))
