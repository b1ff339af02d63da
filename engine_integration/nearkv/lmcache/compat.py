"""Which versions of LMCache are known, and nothing else."""

import lmcache
from lmcache.logging import init_logger

TESTED = "0.5.6"

if lmcache.__version__.split(".")[:2] != TESTED.split(".")[:2]:
    init_logger(__name__).warning(
        "nearkv.lmcache was tested with LMCache %s, not with %s", TESTED, lmcache.__version__
    )
