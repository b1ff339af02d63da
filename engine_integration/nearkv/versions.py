"""Which version of an engine an adapter was tested with."""

import logging
from types import ModuleType

_logger = logging.getLogger(__name__)


def check_version(engine: ModuleType, tested: str, adapter: str) -> None:
    """Warns of an engine that is newer than the tested version; ImportError for an older one."""
    parts = [int(part) for part in tested.split(".")]
    found = [int(part) for part in engine.__version__.split(".")[: len(parts)] if part.isdigit()]
    if found < parts:
        raise ImportError(
            f"{adapter} needs {engine.__name__} {tested} or newer, and this is "
            f"{engine.__version__}: update it"
        )
    if found > parts:
        _logger.warning(
            "%s was tested with %s %s, and this is %s",
            *(adapter, engine.__name__, tested, engine.__version__),
        )
