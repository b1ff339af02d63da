"""POLICIES.md is what the retention policies' sources say."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

DESCRIBE = Path(__file__).parents[2] / "host_lib" / "src" / "policy" / "retention" / "describe.py"


def test_the_page_is_what_the_sources_say():
    checked = subprocess.run(
        [sys.executable, DESCRIBE, "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
