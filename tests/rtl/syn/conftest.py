"""Lets the tests import the synthesis flow."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "rtl" / "syn"))
