"""Sequence-parallel attention: ranks share the tokens of a sequence, and attend to all of them.

with Links() as links:                                     # after init_process_group
    ring = TokenRing(links)
    tokens = Sharding.zigzag(length, links.size)           # who has which positions
    shard = ring.place(key, value, tokens)                 # this rank's K and V
    output = ring.attend(query, shard, tokens, Scores(scale=head_dim**-0.5))
"""

from nearkv.parallel.hybrid import Hybrid
from nearkv.parallel.links import Links, Transfer
from nearkv.parallel.ring import Ring
from nearkv.parallel.shard import Keeper, Scores, Shard
from nearkv.parallel.sharding import Sharding
from nearkv.parallel.token_ring import TokenRing
from nearkv.parallel.ulysses import Ulysses
from nearkv.parallel.volume import Volume
from nearkv.parallel.watch import RankFailed

__all__ = [
    "Hybrid",
    "Keeper",
    "Links",
    "RankFailed",
    "Ring",
    "Scores",
    "Shard",
    "Sharding",
    "TokenRing",
    "Transfer",
    "Ulysses",
    "Volume",
]
