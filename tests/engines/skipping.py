"""Fixtures that need an engine's environment skip where it cannot be had."""

import pytest

from bench.engines.environment import Environment, EnvironmentMissing, make_environment


def environment_or_skip(name: str, title: str) -> Environment:
    """The environment of that name. Skips the test, with pip's last words, where there is none."""
    try:
        return make_environment(name)
    except EnvironmentMissing as error:
        pytest.skip(f"{title} is not here: {error}")
