"""Lets the tests import the generator and their own reading of the contract."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "rtl" / "abi")]
