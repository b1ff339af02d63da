"""Runs the proxy: python -m nearkv.router FILE.toml."""

import sys

from aiohttp import web

from nearkv.router.config import RouterConfig
from nearkv.router.front import run_command
from nearkv.router.prompts import Tokenizer
from nearkv.router.proxy import make_app


def serve(config: RouterConfig, tokenizer: Tokenizer | None) -> None:
    """Serves until SIGTERM or SIGINT."""
    host, port = config.address
    web.run_app(make_app(config, tokenizer), host=host, port=port, handler_cancellation=True)


def main(words: list[str] | None = None) -> int:
    """The exit status."""
    return run_command(
        words,
        prog="python -m nearkv.router",
        description="Sends OpenAI requests where their prompt's beginning is cached.",
        readme="nearkv/router/proxy/README.md",
        run=serve,
    )


if __name__ == "__main__":
    sys.exit(main())
