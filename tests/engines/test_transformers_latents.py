"""What latents save: MLA of DeepSeek-V3's shape in a pool, beside K and V expanded per head."""

import pytest
import torch

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Device, Pool, RowForm  # noqa: E402

HEADS, RANK, ROTATED, PLAIN, VALUE = 128, 512, 64, 128, 128
TOKENS = 256


def test_latents_give_the_same_attention_for_a_sixtieth_of_the_bytes() -> None:
    torch.manual_seed(0)
    latents = torch.randn(TOKENS, RANK).bfloat16()
    rotated = torch.randn(TOKENS, ROTATED).bfloat16()
    to_keys = torch.randn(HEADS, PLAIN, RANK) / RANK**0.5
    to_values = torch.randn(HEADS, VALUE, RANK) / RANK**0.5
    query = torch.randn(HEADS, PLAIN + ROTATED)
    scale = (PLAIN + ROTATED) ** -0.5

    shape = {"layers": 1, "kv_heads": 1, "head_dim": RANK + ROTATED, "value_dim": RANK}
    absorbed = Pool.create(Device("cpu:?memory=64MiB"), v_form=RowForm.NONE, **shape)
    absorbed.create_sequence(1)
    absorbed.append(1, 0, torch.cat([latents, rotated], -1)[None])
    rows = torch.cat([torch.einsum("hn,hnr->hr", query[:, :PLAIN], to_keys), query[:, PLAIN:]], -1)
    output, lse = absorbed.attend(1, 0, rows[None], scale=scale)
    output = torch.einsum("hr,hvr->hv", torch.from_numpy(output)[0], to_values)

    shape = {"layers": 1, "kv_heads": HEADS, "head_dim": PLAIN + ROTATED, "value_dim": VALUE}
    expanded = Pool.create(Device("cpu:?memory=128MiB"), **shape)
    expanded.create_sequence(1)
    keys = (latents.float() @ to_keys.transpose(1, 2)).bfloat16()
    keys = torch.cat([keys, rotated.expand(HEADS, -1, -1)], -1)
    values = (latents.float() @ to_values.transpose(1, 2)).bfloat16()
    expanded.append(1, 0, keys, values)
    plain, plain_lse = expanded.attend(1, 0, query[:, None], scale=scale)

    # Apart by the rounding of what was expanded.
    assert (output - torch.from_numpy(plain)[:, 0]).abs().max() < 0.02
    assert (torch.from_numpy(lse)[0] - torch.from_numpy(plain_lse)[:, 0]).abs().max() < 0.02
    held = [pool.usage().page_bytes / TOKENS for pool in (absorbed, expanded)]
    read = [pool.stats().near_bytes / TOKENS for pool in (absorbed, expanded)]
    print(
        f"held per token: {held[0]:.0f} and {held[1]:.0f} bytes, read: {read[0]:.0f}, {read[1]:.0f}"
    )
    assert held[1] > 60 * held[0]
    assert read[1] > 60 * read[0]
