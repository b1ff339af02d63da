"""What a load measured on a cluster without NearKV and on one with it, beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from nearkv.cluster.load import Turns
from nearkv.results import Goal, Result, Samples, align_rows


@dataclass(frozen=True)
class Phase:
    """One cluster's answers, and what its workers computed for them."""

    name: str
    turns: Turns
    computed_tokens: float
    """Of prompts, on all workers: what was found nowhere."""
    cached_tokens: float
    """Of prompts, found in a worker's own cache."""
    pool_tokens: float
    """Of prompts, found in the pool."""
    cpu_s: float
    """CPU time of all processes, which other jobs of a machine change least."""

    @property
    def texts(self) -> list[str]:
        """Of all turns, in one order."""
        return self.turns.texts

    @property
    def prompt_tokens(self) -> int:
        """Of all turns, each once."""
        return sum(answer.prompt_tokens for answer in self.turns.answers.values())

    @property
    def first_tokens_s(self) -> Samples:
        """TTFT, of every turn but each user's first, before which nothing can be known."""
        later = [a.first_token_s for (_, turn), a in self.turns.answers.items() if turn > 0]
        return Samples(tuple(later))

    @property
    def per_tokens_s(self) -> Samples:
        """TPOT, of every turn that has one."""
        paces = [answer.per_token_s for answer in self.turns.answers.values()]
        return Samples(tuple(pace for pace in paces if pace is not None))

    @property
    def cpu_s_per_turn(self) -> float:
        """CPU time of all processes."""
        return self.cpu_s / len(self.turns.answers)

    @property
    def not_computed_twice(self) -> float:
        """The share of the prompts' tokens that no worker computed."""
        return 1 - min(1.0, self.computed_tokens / self.prompt_tokens)


def make_results(without: Phase, with_pool: Phase) -> list[Result]:
    """The rows for ./nearkv report."""
    same = float(without.texts == with_pool.texts)
    rows = [
        Result(name="cluster/texts_equal", value=same, unit="yes=1", goal=Goal("==", 1)),
        Result(
            name="cluster/prompt_tokens_not_computed",
            value=with_pool.not_computed_twice,
            unit="share",
            peer=without.name,
            peer_value=without.not_computed_twice,
        ),
        Result(
            name="cluster/turns_per_cpu_second",
            value=1 / with_pool.cpu_s_per_turn,
            unit="1/s",
            peer=without.name,
            peer_value=1 / without.cpu_s_per_turn,
        ),
    ]
    for what, own, peer in (
        ("first_tokens", with_pool.first_tokens_s, without.first_tokens_s),
        ("later_tokens", with_pool.per_tokens_s, without.per_tokens_s),
    ):
        rows.append(
            Result.of_samples(
                f"cluster/{what}",
                own.per_second(1),
                "1/s",
                beside=peer.per_second(1),
                peer=without.name,
            )
        )
    return rows


def format_table(phases: Sequence[Phase]) -> str:
    """What the demo prints."""
    heads = ("", *(phase.name for phase in phases))
    rows: list[tuple[str, ...]] = [heads]

    def row(label: str, *cells: str) -> None:
        rows.append((label, *cells))

    for label, samples in (
        ("TTFT of later turns, median", [phase.first_tokens_s for phase in phases]),
        ("TPOT, median", [phase.per_tokens_s for phase in phases]),
    ):
        row(label, *(f"{1000 * one.median:,.1f} ms" for one in samples))
        row("  slowest", *(f"{1000 * one.maximum:,.1f} ms" for one in samples))
    row("CPU time of a turn", *(f"{1000 * phase.cpu_s_per_turn:,.0f} ms" for phase in phases))
    row("tokens of prompts", *(f"{phase.prompt_tokens:,}" for phase in phases))
    for label, counts in (
        ("  computed, on all workers", [phase.computed_tokens for phase in phases]),
        ("  found in workers' caches", [phase.cached_tokens for phase in phases]),
        ("  found in the pool", [phase.pool_tokens for phase in phases]),
    ):
        row(label, *(f"{count:,.0f}" for count in counts))
    return "\n".join(align_rows(rows))
