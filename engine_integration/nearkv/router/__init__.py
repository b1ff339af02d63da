"""Which worker a prompt goes to: where its beginning is cached, and who has room.

router = Router(VllmHashes("sha256"), policy="least_ttft")
router.add_worker("a")
events = EventSubscriber(router)
events.add("a", "tcp://a:5557", replay_endpoint="tcp://a:5558")
events.start()
decision = router.route(tokens)             # print(decision) says why
with router.start(decision) as request:     # counts in the worker's load
    ...                                     # send it to decision.worker
    request.first_token()
"""

from _nearkv import CostModel, DynamoWeights, MooncakeThresholds, Tier, TierCost

from nearkv.core import Error
from nearkv.router.decision import Decision, StartedRequest
from nearkv.router.hashes import HashScheme, SglangHashes, VllmHashes, scheme_of
from nearkv.router.media import UnknownMedium
from nearkv.router.ranks import WorkerLoad
from nearkv.router.router import Router, RouterStats
from nearkv.router.source import FeedCounters
from nearkv.router.subscriber import EventSubscriber
from nearkv.router.taking import HashMismatch, OtherBlockSize

__all__ = [
    "CostModel",
    "Decision",
    "DynamoWeights",
    "Error",
    "EventSubscriber",
    "FeedCounters",
    "HashMismatch",
    "HashScheme",
    "MooncakeThresholds",
    "OtherBlockSize",
    "Router",
    "RouterStats",
    "SglangHashes",
    "StartedRequest",
    "Tier",
    "TierCost",
    "UnknownMedium",
    "VllmHashes",
    "WorkerLoad",
    "scheme_of",
]
