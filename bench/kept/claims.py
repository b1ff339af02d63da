"""What papers say of their methods at a budget, to be held against this bench's figures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A method at a share of the tokens is as good as all tokens, times `ratio`."""

    method: str
    budget: float
    ratio: float
    text: str


CLAIMS = (
    Claim("r_kv", 0.10, 1.0, "R-KV: nearly all of the performance at 10 % (reasoning models)"),
    Claim("r_kv", 0.16, 1.05, "R-KV: 105 % of the performance at 16 % (reasoning models)"),
    Claim("h2o", 0.20, 1.0, "H2O: comparable at 20 % of the cache (OPT, LLaMA, GPT-NeoX)"),
)
SPECULATED = 0.95
"""CXL-SpecKV: top-4 accuracy of its prefetcher."""
