"""Attention here and the merge of its parts, against attention in float64."""

import pytest
import torch

from nearkv import near
from nearkv.near import attend_here, merge

pytestmark = pytest.mark.quick

SCALE = 0.3
EXACT = {torch.float64: 1e-13, torch.float32: 1e-5}


def rows(dtype: torch.dtype, tokens: int = 40, value_dim: int = 16) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    query = torch.randn(2, 3, 2, 7, 16, dtype=dtype)
    key = torch.randn(2, 3, tokens, 16, dtype=dtype)
    return query, key, torch.randn(2, 3, tokens, value_dim, dtype=dtype)


def exact(query, key, value, mask, soft_cap: float) -> tuple[torch.Tensor, torch.Tensor]:
    logits = query.double() @ key.double().unsqueeze(2).transpose(-1, -2) * SCALE
    if soft_cap:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    if mask is not None:
        logits = logits.masked_fill(~mask[:, :, None], -torch.inf)
    return logits.softmax(-1).nan_to_num() @ value.double().unsqueeze(2), logits.logsumexp(-1)


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("value_dim", [16, 8])
@pytest.mark.parametrize("soft_cap", [0.0, 1.5])
@pytest.mark.parametrize("logits", [near._LOGITS, 900])
def test_masked_rows_are_exact_or_nothing(
    monkeypatch, dtype, value_dim: int, soft_cap: float, logits: int
) -> None:
    monkeypatch.setattr(near, "_LOGITS", logits)
    query, key, value = rows(dtype, value_dim=value_dim)
    mask = torch.rand(2, 1, 7, 40) < 0.5
    mask[:, :, 3] = False
    output, lse = attend_here(query, key, value, mask, SCALE, soft_cap)
    wanted, wanted_lse = exact(query, key, value, mask, soft_cap)
    assert output.dtype == lse.dtype == dtype
    assert (output - wanted).abs().max() < EXACT[dtype]
    assert (lse[..., 3] == -torch.inf).all()
    assert not output[..., 3, :].any()
    seen = mask.any(-1)[:, :, None].expand_as(lse)
    assert (lse - wanted_lse)[seen].abs().max() < EXACT[dtype]


@pytest.mark.parametrize("tokens, queries", [(0, 7), (40, 0), (0, 0)])
def test_nothing_gives_zero_and_minus_infinity(tokens: int, queries: int) -> None:
    query, key, value = rows(torch.float64, tokens, value_dim=8)
    output, lse = attend_here(query[..., :queries, :], key, value, None, SCALE, 0.0)
    assert (output.shape, lse.shape) == ((2, 3, 2, queries, 8), (2, 3, 2, queries))
    assert not output.any()
    assert (lse == -torch.inf).all()


@pytest.mark.parametrize("dtype", EXACT, ids=str)
def test_parts_merge_to_the_whole(dtype) -> None:
    query, key, value = rows(dtype)
    mask = torch.ones(2, 1, 7, 40, dtype=torch.bool)
    mask[:, :, 0, :25] = False
    mask[:, :, 1, 10:] = False
    mask[:, :, 2] = False
    parts = [
        attend_here(query, key[:, :, part], value[:, :, part], mask[..., part], SCALE, 0.0)
        for part in (slice(0, 10), slice(10, 10), slice(10, 25), slice(25, 40))
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged = merge(merged, part)
    wanted, wanted_lse = exact(query, key, value, mask, 0.0)
    assert (merged[0] - wanted).abs().max() < EXACT[dtype]
    assert (merged[1].nan_to_num(neginf=0) - wanted_lse.nan_to_num(neginf=0)).abs().max() < EXACT[
        dtype
    ]
    assert (merged[1][..., 2] == -torch.inf).all()
