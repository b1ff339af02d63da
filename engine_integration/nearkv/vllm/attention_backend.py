"""What vLLM loads for its CPU platform's backends: those, until it needs one of NearKV's.

Nothing of NearKV's extension is imported before.
"""

from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)

from nearkv.vllm.configured import configured_options, is_context_parallel


class NearKVAttentionBackend(CPUAttentionBackend):
    """In the place of CPU_ATTN."""

    @staticmethod
    def get_impl_cls() -> type[CPUAttentionBackendImpl]:
        """Who attends."""
        return _classes()[0]

    @staticmethod
    def get_builder_cls() -> type[CPUAttentionMetadataBuilder]:
        """Who prepares a step."""
        return _classes()[1]


def _classes() -> tuple[type[CPUAttentionBackendImpl], type[CPUAttentionMetadataBuilder]]:
    options = configured_options()
    if options is not None and options.uri:
        from nearkv.vllm.attention import NearKVAttentionImpl, NearKVMetadataBuilder

        return NearKVAttentionImpl, NearKVMetadataBuilder
    if options is not None and options.mode != "dense":
        from nearkv.vllm.by_codes import CodedImpl, CodedMetadataBuilder

        return CodedImpl, CodedMetadataBuilder
    if options is not None:
        from nearkv.vllm.in_place import InPlaceImpl, InPlaceMetadataBuilder

        return InPlaceImpl, InPlaceMetadataBuilder
    if is_context_parallel():
        from nearkv.vllm.context_parallel import ContextParallelBuilder, ContextParallelImpl

        return ContextParallelImpl, ContextParallelBuilder
    return CPUAttentionBackendImpl, CPUAttentionMetadataBuilder
