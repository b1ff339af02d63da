"""What vLLM calls when it starts: makes the attention backends known to it, and no more."""

from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend


def register() -> None:
    """Entry point "nearkv" of vllm.general_plugins.

    The CPU platform knows no backend but its own, so that one is replaced by one that is the same
    until additional_config has nearkv_attention; elsewhere --attention-backend CUSTOM asks for it.
    """
    register_backend(AttentionBackendEnum.CPU_ATTN, "nearkv.vllm.attention.NearKVAttentionBackend")
