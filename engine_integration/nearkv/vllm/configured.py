"""Which attention of NearKV's an engine has, if any: asked by every vLLM, so it imports no more."""

from typing import TYPE_CHECKING

from vllm.config.vllm import get_current_vllm_config_or_none

if TYPE_CHECKING:
    from nearkv.vllm.attention_options import AttentionOptions


def configured_options() -> "AttentionOptions | None":
    """What vLLM's additional_config says of nearkv_attention; None if it does not name it.

    ValueError says what is wrong with what it says of NearKV.
    """
    config = get_current_vllm_config_or_none()
    settings = config.additional_config if config else None
    if not isinstance(settings, dict) or not any(name.startswith("nearkv") for name in settings):
        return None
    from nearkv.vllm.attention_options import AttentionOptions

    return AttentionOptions.parse(settings)


def is_configured() -> bool:
    """Whether vLLM's additional_config asks for attention near the data; raises as above."""
    return configured_options() is not None


def is_context_parallel() -> bool:
    """Whether vLLM's ranks share the tokens of requests."""
    config = get_current_vllm_config_or_none()
    return config is not None and config.parallel_config.decode_context_parallel_size > 1
