"""The field's methods, as this project has them: a policy, a budget for heads, what stays anyway.

Each is the paper's idea behind NearKV's one seam, with its paper's settings where they are known;
none is its authors' code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.kept.selections import Estimate, by_page, by_score, by_sign
from nearkv.core import PAGE_TOKENS


@dataclass(frozen=True)
class Method:
    """How tokens of a prompt, and those that follow, are kept within a budget."""

    paper: str
    policy: str = "sliding_window"
    parameters: Mapping[str, float] = field(default_factory=dict)
    rule: str = "uniform"
    recent_share: float = 0.0
    """Of a head's budget, for the newest tokens."""
    sinks: int = 4
    grain: int = 1
    undo: bool = False
    """What has no room stays at fewer planes, and may come back."""
    select: Estimate | None = None
    """Nothing is evicted; each query reads as many tokens as the budget has, chosen so. With `undo`
    it reads all others at fewer planes."""

    @property
    def learns(self) -> bool:
        """Whether it needs a TOPK of each query that follows the prompt."""
        return self.select is None and self.policy != "sliding_window"

    @property
    def has_commands(self) -> bool:
        """Whether devices select so."""
        return self.select in (None, by_score)


METHODS = {
    "streaming_llm": Method("StreamingLLM, ICLR 2024"),
    "h2o": Method("H2O, NeurIPS 2023", "heavy_hitters", recent_share=0.5),
    "r_kv": Method("R-KV, 2025", "redundancy", recent_share=0.1),
    "flexicache": Method(
        "FlexiCache, 2025",
        "heavy_hitters",
        {"decay": 0.5},
        rule="stable_heads",
        grain=PAGE_TOKENS,
    ),
    "h2o_undone": Method(
        "H2O, demoting", "heavy_hitters", {"decay": 0.9}, recent_share=0.5, undo=True
    ),
    "quest": Method("Quest, ICML 2024: ranges of pages", select=by_page),
    "sign": Method("FIER, LongSight, 2025: signs of keys", select=by_sign),
    "top_k": Method("the exact top k", select=by_score),
    "tail": Method("the exact top k, all others at two planes", select=by_score, undo=True),
}
