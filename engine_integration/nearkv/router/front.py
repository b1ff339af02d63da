"""What front ends have in common: their command, and pages about how they do."""

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, disable_created_metrics

from nearkv.console import start_logging
from nearkv.core import Error
from nearkv.router.config import ConfigError, RouterConfig, read_config
from nearkv.router.engines import DECODE, Engines
from nearkv.router.prompts import Tokenizer


def make_pages(engines: Engines, **options: Any) -> web.Application:
    """An application of aiohttp with /health and /metrics; `options` are its own."""

    async def health(request: web.Request) -> web.Response:
        """200 while an engine may be sent something; what each has to do, and the index holds."""
        return web.json_response(engines.health(), status=200 if engines.fleet.up(DECODE) else 503)

    async def metrics(request: web.Request) -> web.Response:
        """For Prometheus."""
        headers = {"content-type": CONTENT_TYPE_LATEST}
        return web.Response(body=engines.metrics.page(), headers=headers)

    async def end(app: web.Application) -> None:
        engines.end()

    app = web.Application(**options)
    app.on_shutdown.append(end)
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", metrics)
    return app


def run_command(
    words: list[str] | None,
    *,
    prog: str,
    description: str,
    readme: str,
    run: Callable[[RouterConfig, Tokenizer | None], None],
) -> int:
    """Reads the command line and the file that it names, and runs; the exit status."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("config", type=Path, help=f"TOML; see {readme}")
    parser.add_argument("--verbose", action="store_true", help="say why, for each request")
    options = parser.parse_args(words)
    start_logging()
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    disable_created_metrics()
    if options.verbose:
        logging.getLogger("nearkv.router").setLevel(logging.DEBUG)
    try:
        config = read_config(options.config)
        run(config, _load_tokenizer(config.tokenizer))
    except (
        *(ConfigError, Error, ValueError, ImportError, OSError, RuntimeError),
        zmq.ZMQError,
    ) as error:
        print(f"nearkv.router: {error}", file=sys.stderr)
        return 1
    return 0


def _load_tokenizer(name: str) -> Any:
    """One of transformers', or None without a name. OSError or ImportError if it is not there."""
    if not name:
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)
