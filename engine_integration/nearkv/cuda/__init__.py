"""NearKV on NVIDIA GPUs: attention to what a GPU holds, and merging of parts.

from nearkv.cuda import attend_window, merge_parts

output, lse = attend_window(query, key, value, scale=128**-0.5)  # [batch, kv_heads, group, dim]
here = output.flatten(0, 2), lse.flatten()                       # rows, as merge_parts takes them
output, lse = merge_parts([here[0], far], [here[1], far_lse])    # the same bits in any order

Tensors on a GPU are worked on by libnearkv_cuda.so. Tensors of the host are worked on by the same
kernels on its cores, slowly, where the build has libnearkv_cuda_emulated.so: for tests.
"""

from nearkv.cuda.library import Gpu, gpu_of, serves
from nearkv.cuda.ops import attend_window, merge_parts

__all__ = ["Gpu", "attend_window", "gpu_of", "merge_parts", "serves"]
