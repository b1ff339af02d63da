"""An OpenAI-compatible proxy in front of many engines: python -m nearkv.router FILE.toml."""

from nearkv.router.proxy.app import make_app
from nearkv.router.proxy.config import ConfigError, ProxyConfig, WorkerConfig, read_config

__all__ = ["ConfigError", "ProxyConfig", "WorkerConfig", "make_app", "read_config"]
