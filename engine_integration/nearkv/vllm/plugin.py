"""What vLLM calls when it starts: makes the attention backends known to it, and no more."""

from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

_BACKENDS = {
    AttentionBackendEnum.CPU_ATTN: "attention_backend.NearKVAttentionBackend",
    AttentionBackendEnum.CPU_MLA: "mla_backends.NearKVCPUMLABackend",
    AttentionBackendEnum.AMX_MLA: "mla_backends.NearKVAMXMLABackend",
}


def register() -> None:
    """Entry point "nearkv" of vllm.general_plugins.

    The CPU platform knows no backends but its own, so those are replaced by ones that are the same
    until additional_config has nearkv_attention.
    """
    for backend, path in _BACKENDS.items():
        register_backend(backend, f"nearkv.vllm.{path}")
