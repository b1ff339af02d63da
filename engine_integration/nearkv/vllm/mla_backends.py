"""The CPU platform's backend for latents (MLA), which refuses a configuration of NearKV's."""

from vllm.v1.attention.backends.mla.cpu_mla import CPUMLABackend

from nearkv.vllm.configured import is_configured


class WithoutPool:
    """In front of a backend of vLLM's."""

    @classmethod
    def get_impl_cls(cls) -> type:
        """vLLM's own; ValueError if its additional_config has nearkv_attention."""
        if is_configured():
            raise ValueError(
                "NearKV's attention under vLLM has no latents (MLA); take a model with K and V, "
                "or leave nearkv_attention out of --additional-config"
            )
        return super().get_impl_cls()


class NearKVCPUMLABackend(WithoutPool, CPUMLABackend):
    """In the place of CPU_MLA."""
