"""The version of vLLM that nearkv.vllm is written for: it leans on what others name otherwise."""

import vllm

_SUPPORTED = "0.32"


def check_version() -> None:
    """ImportError under any vLLM but the supported one."""
    if vllm.__version__.split(".")[:2] != _SUPPORTED.split("."):
        raise ImportError(
            f"nearkv.vllm needs vLLM {_SUPPORTED}, and this is {vllm.__version__}: install "
            f"vllm=={_SUPPORTED}.*, or leave NearKV's options out of vLLM's configuration"
        )
