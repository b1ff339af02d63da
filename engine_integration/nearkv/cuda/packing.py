"""Pages that a GPU builds out of K and V rows, as APPEND builds them."""

import _nearkv
import torch
from nkv_abi import PAGE_ENTRY, PAGE_GRAIN_BYTES, PageFlag, PageShape, page_layout

from nearkv.core import PAGE_TOKENS, RowForm, Status
from nearkv.cuda import structures
from nearkv.cuda.library import gpu_of
from nearkv.cuda.memory import RegisteredMemory
from nearkv.cuda.pages import TORCH_DTYPES, PageReader

_DTYPES = {torch_dtype: dtype for dtype, torch_dtype in TORCH_DTYPES.items()}


@torch.library.custom_op("nearkv::pack_pages", mutates_args=())
def pack_pages(
    key: torch.Tensor,
    value: torch.Tensor | None,
    k_form: int,
    v_form: int,
    value_dim: int = 0,
    key_scales: torch.Tensor | None = None,
    sequence: int = 0,
    layer: int = 0,
    first_token: int = 0,
    generation: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(pages, entries, statuses) of a layer's rows, to the bits that a pool's device would write.

    key [kv_heads, tokens, head_dim] and value, whole pages of tokens, in a type that pools hold,
    rows at multiples of 16 bytes. Without value, v_form is NONE and the leading value_dim channels
    of the keys serve as values. key_scales, fp32 [kv_heads, tokens], go with fp8 indexer keys.
    pages are uint8 [kv_heads, pages, bytes]; entries, int64 [kv_heads, pages], the page_entry of
    each, counted from the first page's start; statuses, uint8 [kv_heads, pages], are
    Status.PAGE_OVERFLOW where DELTA4 cannot hold a page's rows, which are then to be packed in RAW.
    `Pool.append_pages(sequence, layer, pages.cpu())` makes them a pool's. Raises Error.
    """
    shape = _shape(key, value, k_form, v_form, value_dim, key_scales)
    heads, count, size = _extent(key, shape)
    pages = key.new_empty(heads, count, size, dtype=torch.uint8)
    entries = _entries(0, heads * count, size, generation, key.device).view(heads, count)
    statuses = key.new_empty(heads, count, dtype=torch.uint8)
    work = _work(shape, key, value, key_scales)
    work.window, work.window_bytes = pages.data_ptr(), pages.numel()
    work.entries, work.statuses = entries.data_ptr(), statuses.data_ptr()
    work.sequence, work.layer, work.first_token = sequence, layer, first_token
    gpu = gpu_of(key.device)
    gpu.call("pack", work, gpu.stream())
    return pages, entries, statuses


@pack_pages.register_fake
def _(
    key: torch.Tensor,
    value: torch.Tensor | None,
    k_form: int,
    v_form: int,
    value_dim: int = 0,
    key_scales: torch.Tensor | None = None,
    sequence: int = 0,
    layer: int = 0,
    first_token: int = 0,
    generation: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    heads, count, size = _extent(key, _shape(key, value, k_form, v_form, value_dim, key_scales))
    return (
        key.new_empty(heads, count, size, dtype=torch.uint8),
        key.new_empty(heads, count, dtype=torch.int64),
        key.new_empty(heads, count, dtype=torch.uint8),
    )


class PackedPages:
    """Pages of one layer's rows, built by the GPU where a near-data device finds them.

    They and their entries lie in registered memory of the device from `begin` on, up to `end`:
    memory behind a pool, that nobody else uses. NearAttention takes this in place of a pool, its
    one sequence being `sequence`, and no core of the host's has touched a row. No Pool knows of
    these pages: to have them found after a restart, forked, cooled or scrubbed, hand what
    pack_pages gives to Pool.append_pages. Arguments as pack_pages has them. Raises Error.
    """

    def __init__(
        self,
        memory: RegisteredMemory,
        begin: int,
        key: torch.Tensor,
        value: torch.Tensor | None,
        *,
        k_form: int,
        v_form: int,
        value_dim: int = 0,
        sequence: int = 0,
        layer: int = 0,
        first_token: int = 0,
        generation: int = 1,
    ) -> None:
        shape = _shape(key, value, k_form, v_form, value_dim, None)
        self.kv_heads, self._count, size = _extent(key, shape)
        self.head_dim, self.value_dim = shape.head_dim, shape.value_dim
        self._memory, self._shape = memory, shape
        self._sequence, self._layer, self._begin = sequence, layer, begin
        entries = self.kv_heads * self._count
        if not entries:
            _refuse("there are no rows to make pages of")
        first = begin + entries * PAGE_ENTRY.size_bytes
        first += -first % PAGE_GRAIN_BYTES
        self.end = first + entries * size
        if begin % PAGE_ENTRY.size_bytes or self.end > memory.bytes:
            _nearkv.check(Status.BAD_ARGUMENT, "there is no room for these pages in the memory")
        memory.host(begin, entries * PAGE_ENTRY.size_bytes).view(torch.int64).copy_(
            _entries(first, entries, size, generation, torch.device("cpu"))
        )
        self.statuses = key.new_empty(self.kv_heads, self._count, dtype=torch.uint8)
        work = _work(shape, key, value, None)
        work.window, work.window_bytes = memory.start, memory.bytes
        work.entries, work.statuses = memory.start + begin, self.statuses.data_ptr()
        work.sequence, work.layer, work.first_token = sequence, layer, first_token
        memory.gpu.call("pack", work, memory.gpu.stream())

    def check(self) -> None:
        """Waits for the pages; raises Error for the first that did not come to be."""
        for index, status in enumerate(self.statuses.flatten().tolist()):
            _nearkv.check(status, f"page {index}: pack it in form RAW")

    def page_list(self, sequence: int, layer: int, kv_head: int) -> tuple[int, int]:
        """As Pool.page_list: the device's address of a head's entries, and its tokens."""
        if (sequence, layer) != (self._sequence, self._layer) or not 0 <= kv_head < self.kv_heads:
            _nearkv.check(Status.NOT_FOUND, f"these are pages of sequence {self._sequence}")
        address = self._begin + kv_head * self._count * PAGE_ENTRY.size_bytes
        return address, self._count * PAGE_TOKENS


class PackedWindow(PageReader):
    """One KV head of what pack_pages gave, read where it lies on the GPU."""

    def __init__(
        self,
        pages: torch.Tensor,
        entries: torch.Tensor,
        kv_head: int,
        *,
        dtype: torch.dtype,
        k_form: int,
        v_form: int,
        head_dim: int,
        value_dim: int,
        key_scales: bool = False,
    ) -> None:
        self._kept = pages, entries
        shape = PageShape(
            k_form,
            v_form,
            _DTYPES[dtype],
            PageFlag.KEY_SCALES if key_scales else 0,
            head_dim,
            value_dim,
        )
        super().__init__(
            gpu_of(pages.device),
            pages.device,
            (pages.data_ptr(), pages.numel()),
            (entries[kv_head].data_ptr(), entries.shape[1]),
            shape,
        )


def _shape(
    key: torch.Tensor,
    value: torch.Tensor | None,
    k_form: int,
    v_form: int,
    value_dim: int,
    key_scales: torch.Tensor | None,
) -> PageShape:
    """Of pages of such rows; what a kernel cannot see of tensors is checked here."""
    is_stored = value is not None
    if key.dim() != 3 or key.dtype not in _DTYPES or is_stored == (v_form == RowForm.NONE):
        _refuse("keys are [kv_heads, tokens, head_dim] in a pool's type; v_form NONE: no values")
    if key.shape[1] % PAGE_TOKENS:
        _refuse(f"{key.shape[1]} tokens are not whole pages of {PAGE_TOKENS}")
    if value is not None:
        if value.dtype != key.dtype or value.dim() != 3 or value.shape[:2] != key.shape[:2]:
            _refuse("values are of another type or number than keys")
        value_dim = value.shape[2]
    if key_scales is not None and (
        key_scales.dtype != torch.float32 or key_scales.shape != key.shape[:2]
    ):
        _refuse("key_scales are fp32 [kv_heads, tokens]")
    flags = PageFlag(0) if key_scales is None else PageFlag.KEY_SCALES
    return PageShape(k_form, v_form, _DTYPES[key.dtype], flags, key.shape[2], value_dim)


def _extent(key: torch.Tensor, shape: PageShape) -> tuple[int, int, int]:
    """KV heads, pages of each, and bytes of a page."""
    return key.shape[0], key.shape[1] // PAGE_TOKENS, page_layout(shape).total_bytes


def _entries(
    first: int, count: int, page_bytes: int, generation: int, where: torch.device
) -> torch.Tensor:
    """page_entry of pages one behind the other, the first being at address `first`."""
    numbers = torch.arange(count, dtype=torch.int64, device=where)
    return (numbers * page_bytes + first) // PAGE_GRAIN_BYTES + (generation << 32)


def _work(
    shape: PageShape,
    key: torch.Tensor,
    value: torch.Tensor | None,
    key_scales: torch.Tensor | None,
) -> structures.Pack:
    work = structures.Pack(
        keys=_rows(key, "keys"),
        kv_heads=key.shape[0],
        tokens=key.shape[1],
        shape=structures.Shape(
            shape.k_form,
            shape.v_form,
            shape.dtype,
            shape.flags,
            shape.head_dim,
            shape.value_dim,
        ),
    )
    if value is not None:
        work.values = _rows(value, "values")
    if key_scales is not None:
        work.key_scales = _rows(key_scales.unsqueeze(2), "key_scales")
    return work


def _rows(rows: torch.Tensor, name: str) -> structures.Rows:
    if rows.shape[2] > 1 and rows.stride(2) != 1:
        _refuse(f"{name} are each in one piece; copy them")
    size = rows.element_size()
    head, token = (
        stride * size if extent > 1 else 0
        for extent, stride in zip(rows.shape[:2], rows.stride()[:2], strict=True)
    )
    return structures.Rows(first=rows.data_ptr(), head_bytes=head, token_bytes=token)


def _refuse(why: str) -> None:
    _nearkv.check(Status.BAD_ARGUMENT, why)
