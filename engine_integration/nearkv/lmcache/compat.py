"""Which versions of LMCache are known, and nothing else."""

import lmcache
from lmcache.logging import init_logger

_TESTED = (0, 5, 6)
_PARTS = tuple(int(part) for part in lmcache.__version__.split(".")[:3] if part.isdigit())

if _PARTS < _TESTED:
    raise ImportError(
        f"LMCache {lmcache.__version__} has interfaces that nearkv.lmcache does not know: update "
        f"it, {'.'.join(map(str, _TESTED))} is supported"
    )
if _PARTS[:2] > _TESTED[:2]:
    init_logger(__name__).warning(
        "nearkv.lmcache was not tested with LMCache %s", lmcache.__version__
    )
