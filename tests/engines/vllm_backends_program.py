"""Runs in vLLM's environment: which attention backend its CUDA platform takes, without a GPU.

Its argument: {"entry_points": a folder of a distribution's, "cases": [{"additional_config",
"backend": a name or null, "mla": bool}, ..], "builders": [{"speculative", "ubatching"}, ..]}.
Its last line: {"chosen": [class or error, ..], "refused": [error, ..], "cudagraphs", "rows":
whether K and V were read right, whichever way blocks lie in memory}.
"""

import os
import sys
from types import ModuleType, SimpleNamespace

from program import question, tell

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
QUESTION = question()
sys.path.insert(0, QUESTION["entry_points"])
KERNELS = "vllm._C_stable_libtorch"
sys.modules[KERNELS] = ModuleType(KERNELS)  # That CUDA's platform imports; none is called.

import torch  # noqa: E402
from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.config.attention import AttentionConfig  # noqa: E402
from vllm.platforms.cuda import CudaPlatformBase  # noqa: E402
from vllm.platforms.interface import DeviceCapability  # noqa: E402
from vllm.plugins import load_general_plugins  # noqa: E402
from vllm.v1.attention.selector import AttentionSelectorConfig  # noqa: E402


class Hopper(CudaPlatformBase):
    @classmethod
    def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
        return DeviceCapability(9, 0)


def chosen(case: dict) -> str:
    config = VllmConfig(
        additional_config=case["additional_config"],
        attention_config=AttentionConfig(backend=case["backend"]),
    )
    asked = AttentionSelectorConfig(128, torch.bfloat16, "auto", None, use_mla=case["mla"])
    with set_current_vllm_config(config):
        try:
            return Hopper.get_attn_backend_cls(config.attention_config.backend, asked)
        except ValueError as error:
            return str(error)


def refused(builder: dict) -> str:
    from nearkv.vllm.gpu_attention import NearKVFlashAttentionBuilder

    config = SimpleNamespace(
        speculative_config=builder["speculative"],
        parallel_config=SimpleNamespace(use_ubatching=builder["ubatching"]),
    )
    try:
        NearKVFlashAttentionBuilder(None, [], config, None)
    except ValueError as error:
        return str(error)
    return ""


def reads_rows() -> bool:
    """Blocks in memory token by token and head by head, each as vLLM's tensor says."""
    from nearkv.vllm.gpu_attention import NearKVFlashAttentionImpl

    blocks, heads, block, dim = 5, 3, 16, 32
    keys, values = torch.randn(2, blocks * block, heads, dim)
    impl = SimpleNamespace(head_size=dim)
    slots = torch.tensor([[0, 17, 79], [64, 3, 15]])
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)):
        inverse = [order.index(axis) for axis in range(4)]
        shape = [(blocks, heads, block, 2 * dim)[axis] for axis in order]
        cache = torch.zeros(shape).permute(inverse)
        both = torch.cat([keys, values], -1).view(blocks, block, heads, 2 * dim)
        cache.copy_(both.transpose(1, 2))
        reader = NearKVFlashAttentionImpl.kv_rows(impl, None, cache)
        found = reader.read(cache, reader.places(cache, slots))
        sample = reader.sample(cache, reader.sampled(cache, slots[0]))
        picked = keys[slots[0], 0, slots[0] * 7 % dim].view(torch.int32).numpy()
        if not (torch.equal(found[0], keys[slots]) and torch.equal(found[1], values[slots])):
            return False
        if not (sample == picked).all():
            return False
    return True


def answer() -> dict:
    load_general_plugins()
    from nearkv.vllm.gpu_attention import NearKVFlashAttentionBuilder

    return {
        "chosen": list(map(chosen, QUESTION["cases"])),
        "refused": list(map(refused, QUESTION["builders"])),
        "cudagraphs": NearKVFlashAttentionBuilder.get_cudagraph_support(None, None).name,
        "rows": reads_rows(),
    }


if __name__ == "__main__":
    tell(answer())
