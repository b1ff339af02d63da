"""An OpenAI-compatible proxy in front of many engines: python -m nearkv.router FILE.toml."""

from nearkv.router.proxy.app import make_app

__all__ = ["make_app"]
