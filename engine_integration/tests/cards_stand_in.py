"""A stand-in for `nearkv card`, which only the guest has cards for.

It answers as the tool does, as far as the device plug-in asks, and refuses as a card does.
"""

from typing import Any

from nearkv.kubernetes.pools import Command, PoolError

GIB = 1 << 30


class CardsStandIn(Command):
    """Cards by their names; `fails` is what the tool says of all of them."""

    def __init__(self, **cards: dict[str, Any]) -> None:
        super().__init__()
        self.cards = {name: _card(**card) for name, card in cards.items()}
        self.fails = ""
        self.calls: list[tuple[str, ...]] = []

    def lent(self, card: str = "nearkv0") -> list[str]:
        """The tags of what the host has."""
        return sorted(extent["tag"] for extent in self.cards[card]["extents"])

    async def json(self, *words: str) -> Any:
        return self._answer(words)

    async def run(self, *words: str) -> str:
        return str(self._answer(words))

    def _answer(self, words: tuple[str, ...]) -> Any:
        self.calls.append(words)
        if self.fails:
            raise PoolError(self.fails)
        if words == ("card", "list"):
            return [
                {"name": name, "memory_bytes": card["memory_bytes"], "module": card["module"]}
                for name, card in self.cards.items()
            ]
        assert words[:2] == ("card", "capacity"), words
        if len(words) == 3:
            return self._shown(self.cards[words[2]])
        return {"offer": _offer, "answer": _answer, "release": _release}[words[2]](
            self.cards[words[3]], *words[4:]
        )

    def _shown(self, card: dict[str, Any]) -> Any:
        if "region_bytes" not in card:
            raise PoolError("the card lends no memory")
        return {"bytes": card["region_bytes"], "extents": list(card["extents"])}


def _card(gib: int = 4, *, lends: bool = True, node: int = 1, **more: Any) -> dict[str, Any]:
    card = {"memory_bytes": gib * GIB, "module": {"numa_node": node}, "extents": [], "offered": []}
    return card | ({"region_bytes": gib * GIB} if lends else {}) | more


def _offer(card: dict[str, Any], size: str, _: str, tag: str) -> None:
    if card["offered"]:
        raise PoolError("the host has not answered what it was offered before")
    lent = card["extents"]
    taken = {extent["address"] for extent in lent}
    free = [at for at in range(0, card["region_bytes"], int(size)) if at not in taken]
    most = card.get("lends_bytes", card["region_bytes"])
    if not free or (len(lent) + 1) * int(size) > most:
        raise PoolError("the card has no such capacity left")
    card["offered"].append({"address": free[0], "bytes": int(size), "tag": tag})


def _answer(card: dict[str, Any]) -> Any:
    offered, card["offered"] = card["offered"], []
    card["extents"] += offered
    return [extent | {"event": "offered"} for extent in offered]


def _release(card: dict[str, Any], address: str, size: str) -> None:
    place = int(address, 16), int(size)
    left = [each for each in card["extents"] if (each["address"], each["bytes"]) != place]
    if len(left) == len(card["extents"]):
        raise PoolError("that is not lent")
    card["extents"] = left
