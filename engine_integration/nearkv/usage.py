"""Whether a call is right is asked by `./nearkv` before it installs and builds for minutes."""

import os
import sys


def exit_if_usage_is_all() -> None:
    """Ends the program with status 0 where only its arguments were to be checked."""
    if os.environ.get("NEARKV_CHECK_USAGE"):
        sys.exit(0)
