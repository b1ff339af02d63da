"""Pages, read by kernels."""

import ctypes

import torch
from nkv_abi import PageShape

from nearkv.core import PAGE_TOKENS, Dtype, Pool, Tensor
from nearkv.cuda import structures
from nearkv.cuda.library import Gpu
from nearkv.cuda.memory import CopiedMemory, RegisteredMemory

TORCH_DTYPES = {
    Dtype.BF16: torch.bfloat16,
    Dtype.FP16: torch.float16,
    Dtype.FP8_E4M3: torch.float8_e4m3fn,
    Dtype.FP8_E5M2: torch.float8_e5m2,
    Dtype.INT8: torch.int8,
}


class PageReader:
    """Pages of one KV head in memory that a GPU reaches, read where they lie.

    `window` and `entries` are where they begin, as kernels see it; of the first the bytes, of the
    second how many there are. Results come on the GPU, each with a `fault` for check_fault.
    """

    def __init__(
        self,
        gpu: Gpu,
        where: torch.device,
        window: tuple[int, int],
        entries: tuple[int, int],
        shape: PageShape,
    ) -> None:
        self._gpu, self._where = gpu, where
        self.tokens = entries[1] * PAGE_TOKENS
        self._dims = {Tensor.KEYS: shape.head_dim, Tensor.VALUES: shape.value_dim}
        self._dtype = TORCH_DTYPES[Dtype(shape.dtype)]
        self._pages = structures.Pages(
            window=window[0],
            entries=entries[0],
            window_bytes=window[1],
            count=entries[1],
            head_dim=shape.head_dim,
            value_dim=shape.value_dim,
            dtype=shape.dtype,
            k_form=shape.k_form,
            v_form=shape.v_form,
            flags=shape.flags,
        )

    def rows(
        self, tensor: Tensor, ids: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(rows, fault): K or V rows [tokens, dim], exact, of all tokens or of `ids`, int32."""
        count = self.tokens if ids is None else len(ids)
        dim = self._dims[tensor]
        if ids is not None and (ids.dtype != torch.int32 or not ids.is_contiguous()):
            raise ValueError("ids are int32 and contiguous")
        out = torch.empty(count, dim, dtype=self._dtype, device=self._where)
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
            self.tokens, self._dims[Tensor.KEYS], dtype=torch.bfloat16, device=self._where
        )
        fault = self._fault()
        work = structures.PagePlanes(out=out.data_ptr(), fault=fault.data_ptr(), planes=planes)
        self._call("page_planes", work)
        return out, fault

    def digests(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(digests, exponents, fault) for page_bounds: int16 [pages, head_dim] and [pages]."""
        pages, dim = self._pages.count, self._dims[Tensor.KEYS]
        digests = torch.empty(pages, dim, dtype=torch.int16, device=self._where)
        exponents = torch.empty(pages, dtype=torch.int16, device=self._where)
        fault = self._fault()
        work = structures.Digests(
            digests=digests.data_ptr(), exponents=exponents.data_ptr(), fault=fault.data_ptr()
        )
        self._call("digests", work)
        return digests, exponents, fault

    def _fault(self) -> torch.Tensor:
        return torch.full((1,), -1, dtype=torch.int64, device=self._where)

    def _call(self, name: str, work: ctypes.Structure) -> None:
        self._gpu.call(name, self._pages, work, self._gpu.stream())


class PageWindow(PageReader):
    """The pages of one (layer, KV head) of a sequence in a pool.

    Good until the sequence, or one that shares its pages, is changed.
    """

    def __init__(
        self,
        memory: RegisteredMemory | CopiedMemory,
        pool: Pool,
        sequence: int,
        layer: int,
        kv_head: int,
    ) -> None:
        address, tokens = pool.page_list(sequence, layer, kv_head)
        self._memory = memory
        super().__init__(
            memory.gpu,
            memory.where,
            (memory.start, memory.bytes),
            (memory.start + address, tokens // PAGE_TOKENS),
            PageShape(pool.k_form, pool.v_form, pool.dtype, 0, pool.head_dim, pool.value_dim),
        )
