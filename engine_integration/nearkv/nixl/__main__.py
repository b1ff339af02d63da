"""`python -m nearkv.nixl`: builds the plug-in for the NIXL that is installed here."""

import sys

from nearkv.nixl import NixlError, build_plugin


def main() -> int:
    """Prints where the plug-in is; 1 if it cannot be built, and why."""
    try:
        print(build_plugin())
    except NixlError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
