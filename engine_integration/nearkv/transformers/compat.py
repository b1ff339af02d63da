"""Which versions of transformers are known, and nothing else."""

import warnings

import transformers

_TESTED = (5, 23)
_PARTS = tuple(int(part) for part in transformers.__version__.split(".")[:2])

if _PARTS < _TESTED:
    raise ImportError(
        f"transformers {transformers.__version__} has caches that nearkv.transformers does not "
        f"know: update it, {'.'.join(map(str, _TESTED))} is supported"
    )
if _PARTS > _TESTED:
    warnings.warn(
        f"nearkv.transformers was not tested with transformers {transformers.__version__}",
        stacklevel=2,
    )
