"""One layer's attention over vLLM's blocks, timed: in NearKV's kernels, in vLLM's, and by torch.

Runs in vLLM's environment. Its argument: {"threads", "block_tokens"}. Orders:
`fill {"requests", "tokens", "queries", "kv_heads", "group", "head_dim"}` fills the blocks of some
layers with numbers, and answers {"kv_bytes": of one layer, "difference": the
largest of an output from vLLM's or from torch's, in parts of the largest output};
`turn {"way", "count"}` attends so many times "near", by "vllm", by "torch" or, with one query a
request, by "torch_gqa", each time in the next layer, and answers {"seconds": of each time but the
first}.
"""

import json
import sys
from collections.abc import Callable
from itertools import cycle
from typing import Any

from bench.engines.orders import serve
from bench.engines.steps import seconds_of_turn
from bench.quiet import as_a_program_of_its_own

as_a_program_of_its_own(json.loads(sys.argv[1])["threads"])

import torch  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402
from vllm import _custom_ops as ops  # noqa: E402
from vllm import envs  # noqa: E402
from vllm.v1.attention.backends.cpu_attn import _get_attn_isa  # noqa: E402

from nearkv.core import BlockBatch, BlockCache  # noqa: E402
from nearkv.vllm.kv_rows import block_layout, packed_rows  # noqa: E402

_DTYPE = torch.bfloat16
_LEAST_BYTES = 192 << 20  # Of all layers: more than a cache keeps until a layer's next turn.


class TimedLayers:
    """Layers of one shape, whose requests share block tables."""

    def __init__(self, threads: int, block_tokens: int) -> None:
        torch.set_num_threads(threads)
        self._block_tokens = block_tokens

    def fill(self, order: dict[str, int]) -> dict[str, Any]:
        """Makes layers anew."""
        self._order = order
        requests, tokens, queries = (order[name] for name in ("requests", "tokens", "queries"))
        kv_heads, head_dim = order["kv_heads"], order["head_dim"]
        self._isa = _get_attn_isa(_DTYPE, self._block_tokens, head_dim, "auto")
        packed = packed_rows(_DTYPE, self._block_tokens, head_dim, self._isa)
        layout = block_layout(packed, self._block_tokens)
        if layout is None:
            raise RuntimeError("vLLM packs K and V otherwise here")
        columns = -(-tokens // self._block_tokens)
        order_of_blocks = torch.randperm(requests * columns).int()
        self._table = order_of_blocks.view(requests, columns)
        self._starts = torch.arange(0, requests * queries + 1, queries, dtype=torch.int32)
        self._lengths = torch.full((requests,), tokens, dtype=torch.int32)
        self._scheduled = ops.cpu_attn_get_scheduler_metadata(
            num_reqs=requests,
            num_heads=kv_heads * order["group"],
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            seq_lens=self._lengths,
            dtype=_DTYPE,
            query_start_loc=self._starts,
            causal=True,
            sliding_window_size=-1,
            isa=self._isa,
            enable_kv_split=envs.VLLM_CPU_ATTN_SPLIT_KV,
        )
        self._batch = BlockBatch()
        self._batch.begin_step(
            self._starts,
            self._lengths,
            self._table,
            block_tokens=self._block_tokens,
            max_queries=queries,
        )
        self._query = torch.randn(requests * queries, kv_heads * order["group"], head_dim).to(
            _DTYPE
        )
        self._output = torch.empty_like(self._query)
        self._folded_query, self._folded_mask = self._folded(self._query), self._mask()
        kv_bytes = 2 * requests * tokens * kv_heads * head_dim * _DTYPE.itemsize
        layers = -(-_LEAST_BYTES // kv_bytes)
        self._rows = [self._some_rows() for _ in range(layers)]
        self._paged = [self._pages_of(*rows) for rows in self._rows]
        self._blocks = [BlockCache(*paged, layout) for paged in self._paged]
        self._next = cycle(range(layers))
        return {"kv_bytes": kv_bytes, "difference": self._difference()}

    def turn(self, order: dict[str, Any]) -> dict[str, Any]:
        """Seconds of one layer's attention."""
        attend = self._ways()[order["way"]]
        return {"seconds": seconds_of_turn(order["count"], lambda: attend(next(self._next)))}

    def close(self) -> None:
        """Nothing is left behind."""

    def _ways(self) -> dict[str, Callable[[int], torch.Tensor]]:
        return {
            "near": self._attend_near,
            "vllm": self._attend_by_vllm,
            "torch": self._attend_by_torch,
            "torch_gqa": self._attend_by_torch_gqa,
        }

    def _some_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [requests, kv_heads, tokens, head_dim]."""
        order = self._order
        shape = order["requests"], order["kv_heads"], order["tokens"], order["head_dim"]
        return torch.randn(shape, dtype=_DTYPE), torch.randn(shape, dtype=_DTYPE)

    def _pages_of(self, keys: torch.Tensor, values: torch.Tensor) -> list[torch.Tensor]:
        """The same in blocks, as vLLM writes them."""
        _, kv_heads, tokens, head_dim = keys.shape
        shape = self._table.numel(), kv_heads, 2 * self._block_tokens, head_dim
        halves = torch.zeros(shape, dtype=_DTYPE).chunk(2, dim=2)
        place = torch.arange(tokens)
        block = self._table[:, place // self._block_tokens].long()
        slots = block * self._block_tokens + place % self._block_tokens
        by_token = (rows.transpose(1, 2).flatten(0, 1) for rows in (keys, values))
        ops.cpu_attn_reshape_and_cache(*by_token, *halves, slots.flatten(), self._isa)
        return list(halves)

    def _attend_near(self, layer: int) -> torch.Tensor:
        scale = self._query.shape[2] ** -0.5
        self._batch.attend(self._blocks[layer], self._query, self._output, scale=scale)
        return self._output

    def _attend_by_vllm(self, layer: int) -> torch.Tensor:
        ops.cpu_attention_with_kv_cache(
            query=self._query,
            key_cache=self._paged[layer][0],
            value_cache=self._paged[layer][1],
            output=self._output,
            query_start_loc=self._starts,
            seq_lens=self._lengths,
            scale=self._query.shape[2] ** -0.5,
            causal=True,
            alibi_slopes=None,
            sliding_window=-1,
            block_table=self._table,
            softcap=0,
            scheduler_metadata=self._scheduled,
            s_aux=None,
        )
        return self._output

    def _attend_by_torch(self, layer: int) -> torch.Tensor:
        return scaled_dot_product_attention(
            self._folded_query, *self._rows[layer], attn_mask=self._folded_mask
        )

    def _attend_by_torch_gqa(self, layer: int) -> torch.Tensor:
        """Torch finds the KV head of each query head itself."""
        query = self._query.unsqueeze(2)
        return scaled_dot_product_attention(query, *self._rows[layer], enable_gqa=True)

    def _difference(self) -> float:
        near = self._attend_near(0).float()
        by_vllm = self._attend_by_vllm(0).float()
        by_torch = self._unfolded(self._attend_by_torch(0)).float()
        return max(
            float((other - near).abs().max() / near.abs().max()) for other in (by_vllm, by_torch)
        )

    def _folded(self, query: torch.Tensor) -> torch.Tensor:
        """[requests, kv_heads, group * queries, head_dim]: what torch is fastest at."""
        requests, queries, kv_heads, group = (
            self._order[name] for name in ("requests", "queries", "kv_heads", "group")
        )
        apart = query.view(requests, queries, kv_heads, group, -1)
        return apart.permute(0, 2, 3, 1, 4).flatten(2, 3).contiguous()

    def _unfolded(self, output: torch.Tensor) -> torch.Tensor:
        group, queries = self._order["group"], self._order["queries"]
        apart = output.unflatten(2, (group, queries))
        return apart.permute(0, 3, 1, 2, 4).reshape(self._output.shape)

    def _mask(self) -> torch.Tensor | None:
        """What is added to the logits of folded queries."""
        tokens, queries = self._order["tokens"], self._order["queries"]
        if queries == 1:
            return None
        seen = torch.ones(queries, tokens, dtype=torch.bool).tril(tokens - queries)
        hidden = torch.zeros(queries, tokens, dtype=_DTYPE).masked_fill(~seen, -torch.inf)
        return hidden.repeat(self._order["group"], 1)


if __name__ == "__main__":
    made = json.loads(sys.argv[1])
    with torch.inference_mode():
        serve(
            lambda: TimedLayers(**made),
            {"fill": TimedLayers.fill, "turn": TimedLayers.turn},
        )
