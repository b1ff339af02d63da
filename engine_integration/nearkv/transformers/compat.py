"""Refuses a transformers that is too old, before what it lacks is imported."""

import transformers

from nearkv.versions import check_version

check_version(transformers, "5.23", "nearkv.transformers")
