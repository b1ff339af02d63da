"""Runs the endpoint picker: python -m nearkv.router.gateway FILE.toml."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator

from aiohttp import web

from nearkv.router.config import RouterConfig
from nearkv.router.engines import Engines
from nearkv.router.front import make_pages, run_command
from nearkv.router.gateway.endpoints import Endpoints
from nearkv.router.gateway.picker import Picker
from nearkv.router.gateway.service import make_server
from nearkv.router.prompts import Tokenizer

_LOG = logging.getLogger("nearkv.router")
_LOOK_UP_EVERY_S = 5.0
_GRACE_S = 5.0  # for answers that are under way when the picker ends


async def serve(config: RouterConfig, tokenizer: Tokenizer | None) -> None:
    """Picks endpoints until SIGTERM or SIGINT. Errors of Engines and make_server."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    engines = Engines(config, tokenizer)
    endpoints = Endpoints(engines.fleet.urls)
    server, port = make_server(
        Picker(engines, endpoints),
        config.gateway_listen,
        certificate=config.certificate,
        key=config.key,
    )
    async with engines.listening(), _looked_up(endpoints), _pages(engines):
        await server.start()
        _LOG.info("ext_proc at port %d, /health and /metrics at %s", port, config.listen)
        await ended.wait()
        engines.end()
        await server.stop(_GRACE_S)


@contextlib.asynccontextmanager
async def _looked_up(endpoints: Endpoints) -> AsyncIterator[None]:
    async def again_and_again() -> None:
        while True:
            await asyncio.sleep(_LOOK_UP_EVERY_S)
            await endpoints.look_up()

    await endpoints.look_up()
    task = asyncio.create_task(again_and_again())
    try:
        yield
    finally:
        task.cancel()


@contextlib.asynccontextmanager
async def _pages(engines: Engines) -> AsyncIterator[None]:
    runner = web.AppRunner(make_pages(engines))
    await runner.setup()
    host, port = engines.config.address
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


def main(words: list[str] | None = None) -> int:
    """The exit status."""
    return run_command(
        words,
        prog="python -m nearkv.router.gateway",
        description="Picks endpoints for Envoy (ext_proc), where a prompt's beginning is cached.",
        readme="nearkv/router/gateway/README.md",
        run=lambda config, tokenizer: asyncio.run(serve(config, tokenizer)),
    )


if __name__ == "__main__":
    sys.exit(main())
