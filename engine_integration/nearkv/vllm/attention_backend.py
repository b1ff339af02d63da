"""What vLLM loads for its CPU platform's backends: those, until NearKV's attention is configured.

Nothing of NearKV's extension is imported before.
"""

from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)

from nearkv.vllm.configured import is_configured


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
