"""The CPU platform's backends for latents (MLA), which refuse a configuration of NearKV's."""

from vllm.v1.attention.backends.mla.amx_mla import AMXMLABackend
from vllm.v1.attention.backends.mla.cpu_mla import CPUMLABackend

from nearkv.vllm.configured import is_configured


class _WithoutPool:
    @classmethod
    def get_impl_cls(cls) -> type:
        """vLLM's own; ValueError if its additional_config has nearkv_attention."""
        if is_configured():
            raise ValueError(
                "NearKV's attention under vLLM has no latents (MLA); take a model with K and V, "
                "or leave nearkv_attention out of --additional-config"
            )
        return super().get_impl_cls()


class NearKVCPUMLABackend(_WithoutPool, CPUMLABackend):
    """In the place of CPU_MLA."""


class NearKVAMXMLABackend(_WithoutPool, AMXMLABackend):
    """In the place of AMX_MLA."""
