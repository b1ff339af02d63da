"""Runs the proxy: python -m nearkv.router FILE.toml."""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

import zmq
from aiohttp import web

from nearkv.core import Error
from nearkv.router.config import ConfigError, read_config
from nearkv.router.proxy import make_app


def load_tokenizer(name: str) -> Any:
    """One of transformers', or None without a name. OSError or ImportError if it is not there."""
    if not name:
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)


def main(words: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m nearkv.router",
        description="Sends OpenAI requests where their prompt's beginning is cached.",
    )
    parser.add_argument("config", type=Path, help="TOML; see nearkv/router/proxy/README.md")
    parser.add_argument("--verbose", action="store_true", help="say why, for each request")
    options = parser.parse_args(words)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if options.verbose:
        logging.getLogger("nearkv.router").setLevel(logging.DEBUG)
    try:
        config = read_config(options.config)
        app = make_app(config, load_tokenizer(config.tokenizer))
        host, _, port = config.listen.rpartition(":")
        web.run_app(app, host=host.strip("[]"), port=int(port), handler_cancellation=True)
    except (ConfigError, Error, ValueError, ImportError, OSError, zmq.ZMQError) as error:
        print(f"nearkv.router: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
