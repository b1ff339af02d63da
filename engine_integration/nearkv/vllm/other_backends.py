"""vLLM's own attention backends by their names, as they are: who has not taken NearKV's is told so.

A backend that vLLM chooses would leave nearkv_attention out without a word.
"""

from vllm.config.vllm import get_current_vllm_config_or_none
from vllm.utils.import_utils import resolve_obj_by_qualname
from vllm.v1.attention.backends.registry import AttentionBackendEnum

from nearkv.vllm.configured import is_configured


def __getattr__(name: str) -> type:
    """The backend of that name, vLLM's.

    ValueError if additional_config has nearkv_attention, and no layer NearKV's backend.
    """
    if name not in AttentionBackendEnum.__members__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if is_configured():
        chosen = get_current_vllm_config_or_none().attention_config
        if AttentionBackendEnum.CUSTOM not in (chosen.backend, *chosen.backend_per_kind.values()):
            raise ValueError(
                f"{name} knows nothing of nearkv_attention: add --attention-backend CUSTOM, which "
                "is NearKV's, or leave nearkv_attention out of --additional-config"
            )
    return resolve_obj_by_qualname(AttentionBackendEnum[name].value)
