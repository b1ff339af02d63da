"""Ray's nodes on one machine, for demos and tests: each with a raylet of its own."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# Read when Ray is imported. It tells its makers how it is used unless it is told not to; and each
# node would end workers where the machine is short of memory, which is all of theirs.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}

import ray
from ray.cluster_utils import Cluster

from nearkv.cluster import ClusterError

_STORE_BYTES = 80 << 20  # The least that Ray takes; nothing of ours goes through it.
# A node that is killed is missed within a second, where Ray waits for 15 as it comes.
_HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_failure_threshold": 3,
}


@contextmanager
def local_nodes(count: int, cpus: int, resources: Mapping[str, float]) -> Iterator[None]:
    """Nodes with so much each, which this process is connected to until the block ends.

    Beside them is a head that has nothing for workers. A node fails as its machine would when its
    raylet is killed, which is the parent of its actors.
    """
    usual = {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
    cluster = Cluster()
    try:
        try:
            cluster.add_node(num_cpus=0, _system_config=_HEALTH, **usual)
            for _ in range(count):
                cluster.add_node(num_cpus=cpus, resources=dict(resources), **usual)
        except Exception as error:  # Ray has no kind of its own for it.
            raise ClusterError(f"Ray's nodes do not start: {error}") from error
        ray.init(address=cluster.address, logging_level="warning", log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
