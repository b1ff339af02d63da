"""Estimates the cycles of the HLS kernels by a model, beside the RTL's measured cycles.

These are estimates: initiation intervals as the sources ask for them, depths assumed; no synthesis
was run. The RTL's are of whole commands, on one memory port; nearkv_attend has two.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from bench import Context
from hls.estimate.estimate import Sizes, estimate, kernel_names
from nearkv.results import Result

_BASELINE = Path(__file__).parent / "baselines" / "rtl.json"

# 512 pages of 128 channels, as the RTL's commands have them; TRANSCODE is of K and V of each.
_BLOCKS = 1024
_PEERS = {
    "score": ("raw/topk_full", "TOPK FULL, which ranks as well"),
    "score_delta4": ("delta4/topk_full", "TOPK FULL, which ranks as well"),
    "attend": ("raw/attend_dense", "ATTEND DENSE"),
    "attend_delta4": ("delta4/attend_dense", "ATTEND DENSE"),
    "digest_bound": ("raw/topk_digest", "TOPK DIGEST, which reads rows and ranks as well"),
    "plane_score": ("raw/topk_certified", "TOPK CERTIFIED, which refines and ranks as well"),
    "quantise": ("raw/transcode_int8", "TRANSCODE to INT8, which opens and builds pages as well"),
    "dequantise": ("raw/transcode_int8_back", "TRANSCODE from INT8, which builds pages as well"),
}


def run(context: Context) -> Iterator[Result]:
    """Yields the estimated cycles of each kernel."""
    context.progress("estimating; no synthesis was run")
    measured = json.loads(_BASELINE.read_text(encoding="utf-8"))
    cases = {name: (name, Sizes()) for name in kernel_names()}
    cases |= {f"{name}_delta4": (name, Sizes(is_delta4=True)) for name in ("score", "attend")}
    for case, (kernel, sizes) in sorted(cases.items()):
        blocks = _BLOCKS if kernel in ("quantise", "dequantise") else 1
        baseline, peer = _PEERS.get(case, (None, None))
        yield Result(
            name=f"hls/{case}",
            value=estimate(kernel, sizes) * blocks,
            unit="cycles",
            peer=f"RTL, measured: {peer}" if peer else None,
            peer_value=measured[baseline] if baseline else None,
            device="hls kernels, estimated",
            extra={"synthesis": "none was run", "blocks": blocks},
        )
