"""All that is measured of one model at one length: the device's answers beside other methods'."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench.real.anchors import CACHES, Anchors, KeptCache
from bench.real.answers import CodedLayer, JudgedAnswer, Layer, Query
from bench.real.captures import LayerCapture, Subject
from bench.real.tally import Claims, Tally
from nearkv.core import AttendMode

ERRORS = {"error_10": 0.10, "error_05": 0.05}
TAIL_TOKENS = 64
SEARCHED_TOKENS = 256
SEARCH_Z16 = 6 * 16
TAIL = f"tail_{TAIL_TOKENS}"


@dataclass
class Measures:
    """Of one subject. `methods`: answers at the full length; `claims`: of BOUNDED, by its error."""

    subject: Subject
    texts: list[str] = field(default_factory=list)
    methods: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    claims: dict[str, Claims] = field(default_factory=lambda: defaultdict(Claims))
    dense: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Commands that read all, at the full length."""
    search_shares: list[float] = field(default_factory=list)
    """Bytes of K that STATISTICAL read."""
    searched: int = 0
    found: int = 0
    """Pairs searched for, and those whose ids equal FULL's."""

    def measure(
        self, capture: LayerCapture, uri: str, places: int, progress: Callable[[str], None]
    ) -> None:
        """Adds one layer of one text: `places` of the captured queries of each length."""
        layer = Layer(capture)
        coded = CodedLayer(layer, uri)
        anchors = Anchors(layer)
        caches = {name: KeptCache(layer, name) for name in CACHES}
        for first, length in zip(
            range(0, len(capture.positions), self.subject.positions),
            self.subject.lengths,
            strict=True,
        ):
            is_full = length == self.subject.tokens
            for place in _spread(self.subject.positions, places if is_full else places // 4 + 1):
                progress(f"layer {capture.layer}, a query of {length} tokens")
                query = layer.query(first + place)
                self._attend(capture.layer, length, coded, query)
                if is_full:
                    self._search(coded, query)
                    for name, answer in _others(anchors, caches, query):
                        self.methods[name].add(capture.layer, answer)

    def _attend(self, layer: int, length: int, coded: CodedLayer, query: Query) -> None:
        is_full = length == self.subject.tokens
        for name, error in ERRORS.items():
            answer = coded.attend(query, AttendMode.BOUNDED, error=error)
            self.claims[name].add(layer, length, is_full, answer)
            if is_full:
                self.methods[name].add(layer, answer)
                self.dense[name] += answer.is_dense
        if is_full:
            answer = coded.attend(query, AttendMode.TAIL, top_k=TAIL_TOKENS)
            self.methods[TAIL].add(layer, answer)

    def _search(self, coded: CodedLayer, query: Query) -> None:
        share, equal = coded.search(query, SEARCHED_TOKENS, SEARCH_Z16)
        self.search_shares.append(share)
        self.searched += query.pairs
        self.found += equal


def _others(
    anchors: Anchors, caches: dict[str, KeptCache], query: Query
) -> Iterable[tuple[str, JudgedAnswer]]:
    for k in (64, 256):
        yield f"top_{k}_and_means", anchors.top_k(query, k)
    for percent in (5, 10):
        yield f"quest_{percent}", anchors.quest(query, percent / 100)
    for percent in (2.5, 5):
        share = percent / 100
        yield f"vattention_{percent:g}", anchors.vattention(query, share, share)
    for name, cache in caches.items():
        yield name, cache.attend(query)


def _spread(count: int, wanted: int) -> list[int]:
    """Some of `count` places, evenly spread, the last one among them."""
    wanted = min(count, wanted)
    return [count - 1 - index * count // wanted for index in range(wanted)][::-1]
