"""What vLLM calls when it starts: makes the attention backends known to it, and no more."""

from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

_BACKENDS = {
    "CPU_ATTN": "attention_backend.NearKVAttentionBackend",
    "CPU_MLA": "mla_backends.NearKVCPUMLABackend",
    "AMX_MLA": "amx_mla_backend.NearKVAMXMLABackend",
    "CUSTOM": "gpu_attention.NearKVFlashAttentionBackend",
}


def register() -> None:
    """Entry point "nearkv" of vllm.general_plugins.

    The CPU platform knows no backends but its own, so those are replaced by ones that are the same
    until additional_config has nearkv_attention. A GPU takes NearKV's by the name CUSTOM, and all
    others are themselves, but refuse a configuration that they would ignore.
    """
    for backend in AttentionBackendEnum:
        ours = _BACKENDS.get(
            backend.name, f"other_backends.{backend.name}" if backend.value else None
        )
        if ours and not backend.is_overridden():  # By another plug-in.
            register_backend(backend, f"nearkv.vllm.{ours}")
