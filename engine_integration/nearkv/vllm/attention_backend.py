"""What vLLM loads for its CPU platform's backends: those, until it needs one of NearKV's.

Nothing of NearKV's extension is imported before.
"""

from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)

from nearkv.vllm.configured import is_configured, is_context_parallel


class NearKVAttentionBackend(CPUAttentionBackend):
    """In the place of CPU_ATTN."""

    @staticmethod
    def get_impl_cls() -> type[CPUAttentionBackendImpl]:
        """Who attends."""
        if not is_configured():
            if not is_context_parallel():
                return CPUAttentionBackendImpl
            from nearkv.vllm.context_parallel import ContextParallelImpl

            return ContextParallelImpl
        from nearkv.vllm.attention import NearKVAttentionImpl

        return NearKVAttentionImpl

    @staticmethod
    def get_builder_cls() -> type[CPUAttentionMetadataBuilder]:
        """Who prepares a step."""
        if not is_configured():
            if not is_context_parallel():
                return CPUAttentionMetadataBuilder
            from nearkv.vllm.context_parallel import ContextParallelBuilder

            return ContextParallelBuilder
        from nearkv.vllm.attention import NearKVMetadataBuilder

        return NearKVMetadataBuilder
