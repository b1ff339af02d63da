"""What transformers' masks say about tokens that lie in the pool."""

import torch

ALL = 0
"""Window by which a query sees every token of its sequence in the pool, as the device has it."""
NONE = -1
"""No token in the pool is seen."""


def leading_pads(mask: torch.Tensor | None, batch: int, new_tokens: int) -> list[int]:
    """How many of the new tokens of each row are padding, all of it on the left.

    Raises ValueError for padding elsewhere.
    """
    if mask is None:
        return [0] * batch
    check_mask(mask)
    # A token that does not see itself is padding.
    real = mask[:, 0, :, -new_tokens:].diagonal(dim1=-2, dim2=-1)
    pads = [int((~row).sum()) for row in real.expand(batch, -1)]
    if any(bool(row[:count].any()) for row, count in zip(real, pads, strict=False)):
        raise ValueError("padding must be on the left: tokenizer.padding_side = 'left'")
    return pads


def all_pads(mask: torch.Tensor | None, pads: list[int], length: int, new_tokens: int) -> list[int]:
    """How many of `length` tokens of each row are padding; before the new ones it was `pads`.

    Raises ValueError for padding elsewhere than on the left.
    """
    more = leading_pads(mask, len(pads), new_tokens)
    before = length - new_tokens
    if any(count and known < before for count, known in zip(more, pads, strict=True)):
        raise ValueError("padding after tokens; NearKV knows it only on the left")
    return [count + known for count, known in zip(more, pads, strict=True)]


def far_windows(
    mask: torch.Tensor | None, starts: list[int], stored: list[int], queries: int
) -> torch.Tensor:
    """The window through which each query sees the pool: [batch, queries], ALL, NONE or tokens.

    Row b's tokens in the pool are columns starts[b] and on, stored[b] of them. Raises ValueError
    for a mask that hides others than the oldest of these.
    """
    windows = torch.full((len(stored), queries), NONE)
    for row, (start, count) in enumerate(zip(starts, stored, strict=True)):
        if count and mask is None:
            windows[row] = ALL
        elif count:
            seen = mask[row, 0, :, start : start + count]
            counts = seen.sum(-1)
            oldest_hidden = torch.arange(count, device=mask.device) >= (count - counts)[:, None]
            if not torch.equal(seen, oldest_hidden):
                raise ValueError(
                    "this attention mask hides tokens in the middle of what the pool holds; "
                    "NearKV knows causal, sliding and chunked masks, with padding on the left"
                )
            windows[row] = counts.masked_fill(counts == 0, NONE).masked_fill(counts == count, ALL)
    return windows


def seen_counts(mask: torch.Tensor, pads: list[int]) -> list[list[int]]:
    """How many of a row's tokens each query [batch, queries] sees, from column pads[row] on.

    Raises ValueError for a mask that hides others than the newest of these.
    """
    check_mask(mask)
    counts = mask[:, 0].sum(-1)
    first = torch.tensor(pads, device=mask.device)[:, None, None]
    columns = torch.arange(mask.shape[-1], device=mask.device)
    if not torch.equal(mask[:, 0], (columns >= first) & (columns < first + counts[..., None])):
        raise ValueError(
            "this attention mask hides tokens in the middle; an indexer over a pool knows causal "
            "masks, with padding on the left"
        )
    return counts.tolist()


def check_mask(mask: torch.Tensor) -> None:
    """Raises ValueError for masks other than bool [batch, 1, queries, keys]."""
    if mask.dtype != torch.bool or mask.ndim != 4 or mask.shape[1] != 1:
        raise ValueError(
            "NearKV takes masks of type bool, shape [batch, 1, queries, keys], True where seen; "
            f"not {mask.dtype} {list(mask.shape)}"
        )


def causal_mask(end: torch.Tensor, queries: int, columns: int, batch: int) -> torch.Tensor:
    """A mask by which the last `queries` of `end` tokens see all before them, and themselves."""
    last_seen = end - queries + torch.arange(queries, device=end.device)
    mask = torch.arange(columns, device=end.device) <= last_seen[:, None]
    return mask.expand(batch, 1, -1, -1)


def seen_whatever_asks(mask: torch.Tensor | None, shape: tuple[int, int]) -> torch.Tensor:
    """Columns [batch, columns] that a mask shows to all queries alike; None shows all.

    Raises ValueError if queries differ, as they do under a causal mask.
    """
    if mask is None:
        return torch.ones(shape, dtype=torch.bool)
    check_mask(mask)
    seen = mask[:, 0, 0]
    if not torch.equal(mask[:, 0], seen[:, None].expand_as(mask[:, 0])):
        raise ValueError("cross-attention takes a mask that is the same for all queries")
    return seen.expand(shape).cpu()


def seen_range(seen: torch.Tensor) -> tuple[int, int]:
    """The first column that is seen and the one after the last; ValueError for holes."""
    columns = seen.nonzero().flatten().tolist()
    if not columns:
        return 0, 0
    if columns[-1] - columns[0] + 1 != len(columns):
        raise ValueError("this attention mask hides tokens in the middle of the encoder's input")
    return columns[0], columns[-1] + 1
