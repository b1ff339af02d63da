"""What vLLM loads for its CPU platform's backends: those, until NearKV's attention is configured.

Nothing of NearKV's extension is imported before.
"""

from vllm.config.vllm import get_current_vllm_config_or_none
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)


def is_configured() -> bool:
    """Whether vLLM's additional_config asks for attention near the data.

    ValueError says what is wrong with what it says of NearKV.
    """
    config = get_current_vllm_config_or_none()
    settings = config.additional_config if config else None
    if not isinstance(settings, dict) or not any(name.startswith("nearkv") for name in settings):
        return False
    from nearkv.vllm.attention_options import AttentionOptions

    return AttentionOptions.parse(settings) is not None


class NearKVAttentionBackend(CPUAttentionBackend):
    """In the place of CPU_ATTN."""

    @staticmethod
    def get_impl_cls() -> type[CPUAttentionBackendImpl]:
        """Who attends."""
        if not is_configured():
            return CPUAttentionBackendImpl
        from nearkv.vllm.attention import NearKVAttentionImpl

        return NearKVAttentionImpl

    @staticmethod
    def get_builder_cls() -> type[CPUAttentionMetadataBuilder]:
        """Who prepares a step."""
        if not is_configured():
            return CPUAttentionMetadataBuilder
        from nearkv.vllm.attention import NearKVMetadataBuilder

        return NearKVMetadataBuilder
