"""The Gateway API's endpoint picker for Envoy: python -m nearkv.router.gateway FILE.toml."""

from nearkv.router.gateway.endpoints import Endpoints
from nearkv.router.gateway.picker import Picker
from nearkv.router.gateway.service import make_server

__all__ = ["Endpoints", "Picker", "make_server"]
