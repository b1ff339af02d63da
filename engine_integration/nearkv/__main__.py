"""python -m nearkv: what an installed package offers by itself."""

import runpy
import sys

_COMMANDS = {
    "doctor": "say what this machine offers, what is missing, and what mends it",
    "demo": "ask a model about a document, and kill it half-way (needs torch and transformers)",
}
_USAGE = "usage: python -m nearkv COMMAND [--help]\n\n" + "\n".join(
    f"  {name:8}{what}" for name, what in _COMMANDS.items()
)


def main() -> int:
    """Runs a command of the package; 2 when there is none of this name."""
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    if len(sys.argv) < 2 or sys.argv[1] not in _COMMANDS:
        named = f"nothing is called {sys.argv[1]}\n" if len(sys.argv) > 1 else ""
        print(f"{named}{_USAGE}", file=sys.stderr)
        return 2
    command = sys.argv.pop(1)
    runpy.run_module(f"nearkv.{command}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
