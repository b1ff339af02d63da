"""As mla_backends, for processors with AMX."""

from vllm.v1.attention.backends.mla.amx_mla import AMXMLABackend

from nearkv.vllm.mla_backends import WithoutPool


class NearKVAMXMLABackend(WithoutPool, AMXMLABackend):
    """In the place of AMX_MLA."""
