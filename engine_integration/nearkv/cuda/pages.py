"""Pages of a pool, read by kernels."""

import ctypes

import torch

from nearkv.core import PAGE_TOKENS, Dtype, Pool, Tensor
from nearkv.cuda import structures
from nearkv.cuda.memory import CopiedMemory, RegisteredMemory

_TORCH_DTYPES = {
    Dtype.BF16: torch.bfloat16,
    Dtype.FP16: torch.float16,
    Dtype.FP8_E4M3: torch.float8_e4m3fn,
    Dtype.FP8_E5M2: torch.float8_e5m2,
    Dtype.INT8: torch.int8,
}


class PageWindow:
    """The pages of one (layer, KV head) of a sequence, read where they lie.

    Good until the sequence, or one that shares its pages, is changed. Results come on the GPU, each
    with a `fault` for check_fault.
    """

    def __init__(
        self,
        memory: RegisteredMemory | CopiedMemory,
        pool: Pool,
        sequence: int,
        layer: int,
        kv_head: int,
    ) -> None:
        address, self.tokens = pool.page_list(sequence, layer, kv_head)
        self._memory = memory
        self._dims = {Tensor.KEYS: pool.head_dim, Tensor.VALUES: pool.value_dim}
        self._dtype = _TORCH_DTYPES[Dtype(pool.dtype)]
        self._pages = structures.Pages(
            window=memory.start,
            entries=memory.start + address,
            window_bytes=memory.bytes,
            count=self.tokens // PAGE_TOKENS,
            head_dim=pool.head_dim,
            value_dim=pool.value_dim,
            dtype=pool.dtype,
            k_form=pool.k_form,
            v_form=pool.v_form,
        )

    def rows(
        self, tensor: Tensor, ids: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(rows, fault): K or V rows [tokens, dim], exact, of all tokens or of `ids`, int32."""
        count = self.tokens if ids is None else len(ids)
        dim = self._dims[tensor]
        if ids is not None and (ids.dtype != torch.int32 or not ids.is_contiguous()):
            raise ValueError("ids are int32 and contiguous")
        out = torch.empty(count, dim, dtype=self._dtype, device=self._memory.where)
        fault = self._fault()
        work = structures.PageRows(
            ids=None if ids is None else ids.data_ptr(),
            out=out.data_ptr(),
            fault=fault.data_ptr(),
            rows=count,
            out_row_bytes=dim * out.element_size(),
            tensor=tensor,
        )
        self._call("page_rows", work)
        return out, fault

    def planes(self, planes: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(keys, fault): [tokens, head_dim] in bf16, the middles of their cells after `planes`."""
        out = torch.empty(
            self.tokens,
            self._dims[Tensor.KEYS],
            dtype=torch.bfloat16,
            device=self._memory.where,
        )
        fault = self._fault()
        work = structures.PagePlanes(out=out.data_ptr(), fault=fault.data_ptr(), planes=planes)
        self._call("page_planes", work)
        return out, fault

    def digests(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(digests, exponents, fault) for page_bounds: int16 [pages, head_dim] and [pages]."""
        pages, dim = self._pages.count, self._dims[Tensor.KEYS]
        digests = torch.empty(pages, dim, dtype=torch.int16, device=self._memory.where)
        exponents = torch.empty(pages, dtype=torch.int16, device=self._memory.where)
        fault = self._fault()
        work = structures.Digests(
            digests=digests.data_ptr(), exponents=exponents.data_ptr(), fault=fault.data_ptr()
        )
        self._call("digests", work)
        return digests, exponents, fault

    def _fault(self) -> torch.Tensor:
        return torch.full((1,), -1, dtype=torch.int64, device=self._memory.where)

    def _call(self, name: str, work: ctypes.Structure) -> None:
        self._memory.gpu.call(name, self._pages, work, self._memory.gpu.stream())
