"""Some of a step's requests, for the engine's own attention to attend to alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from vllm.v1.attention.backend import CommonAttentionMetadata


@dataclass
class SomeRequests:
    """Requests of a step."""

    metadata: Any
    """The engine's own, for these alone."""
    tokens: torch.Tensor
    """Of the step's tokens: which are theirs."""

    def attend(
        self,
        own: Callable[..., Any],
        layer: torch.nn.Module,
        rows: tuple[torch.Tensor, ...],
        kv_cache: torch.Tensor,
        output: torch.Tensor,
    ) -> None:
        """Their part of a layer's output, by the engine's `own` forward of an implementation.

        `rows` are queries, keys and values of all tokens of the step.
        """
        into = torch.empty_like(output[self.tokens])
        own(layer, *(part[self.tokens] for part in rows), kv_cache, self.metadata, into)
        output[self.tokens] = into


def some_requests(
    build: Callable[..., Any], common: "CommonAttentionMetadata", rows: list[int]
) -> SomeRequests:
    """Those of some rows of the batch; `build` is of the engine's metadata builder."""
    begins = common.query_start_loc_cpu
    device = common.query_start_loc.device
    ranges = [torch.arange(int(begins[row]), int(begins[row + 1])) for row in rows]
    tokens = torch.cat(ranges).to(device)
    counts = begins.diff()[rows]
    starts = torch.zeros(len(rows) + 1, dtype=torch.int32)
    starts[1:] = counts.cumsum(0)
    lengths = common.seq_lens[rows]
    part = type(common)(
        query_start_loc=starts.to(device),
        query_start_loc_cpu=starts,
        seq_lens=lengths,
        num_reqs=len(rows),
        num_actual_tokens=len(tokens),
        max_query_len=int(counts.max()),
        max_seq_len=int(lengths.max()),
        block_table_tensor=common.block_table_tensor[rows],
        slot_mapping=common.slot_mapping[tokens],
    )
    # FlashAttention keeps one schedule for a step, made ahead: that of all requests.
    return SomeRequests(build(0, part, fast_build=True), tokens)
