"""The version of vLLM that NearKV needs, by stand-ins of others."""

import sys
from types import ModuleType

import pytest


@pytest.fixture(params=["0.31.9", "0.33.0", "1.0"])
def another(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version that `import vllm` finds."""
    stand_in = ModuleType("vllm")
    stand_in.__version__ = request.param
    monkeypatch.setitem(sys.modules, "vllm", stand_in)
    monkeypatch.delitem(sys.modules, "nearkv.vllm.compat", raising=False)
    return request.param


@pytest.mark.parametrize("name", ["NearKVConnector", "NearKVOffloadingSpec", "NearKVTier"])
def test_another_version_is_refused_with_the_one_that_is_needed(another: str, name: str) -> None:
    import nearkv.vllm

    with pytest.raises(ImportError, match=rf"needs vLLM 0\.32, and this is {another}"):
        getattr(nearkv.vllm, name)
