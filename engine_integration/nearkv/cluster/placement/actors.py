"""Supervisors as Ray's actors: placed by what nodes have, and placed again when a node fails."""

import asyncio
import dataclasses
import logging
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from nearkv.cluster import ClusterError
from nearkv.cluster.placement.plan import Group, Plan
from nearkv.cluster.placement.server import ServerSpec
from nearkv.cluster.placement.supervisor import Supervisor, WorkerState
from nearkv.console import start_logging

_LOG = logging.getLogger("nearkv.placement")
_ANSWER_S = 10.0
_LOOK_S = 0.5
_END_S = 60.0
# Ray's workers are as nice as can be; a server that they start shall not be.
_NOT_BACKGROUND = {"RAY_worker_niceness": "0"}


@dataclasses.dataclass(frozen=True)
class PlacedWorker:
    """A worker, and where it is."""

    name: str
    role: str
    node: str
    """Ray's; empty: its node failed, or it is not placed yet."""
    state: WorkerState


class WorkerActor:
    """One worker's supervisor, in a process of Ray's; it begins by itself when Ray restarts it."""

    def __init__(self, spec: ServerSpec, plan: Plan) -> None:
        start_logging()
        host = ray.util.get_node_ip_address()
        self._node = ray.get_runtime_context().get_node_id()
        folder = Path(plan.logs) / plan.cluster
        self._supervisor = Supervisor(
            *(spec, host, folder, plan.endpoints, plan.cluster),
            ttl_s=plan.ttl_s,
            patience=plan.patience,
        )
        self._raylet = os.getppid()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._supervisor.run())
        self._thread = threading.Thread(target=self._run, name=spec.name, daemon=True)
        self._thread.start()

    def placed(self) -> PlacedWorker:
        """Where it is, and how it does."""
        state = self._supervisor.state
        return PlacedWorker(state.name, state.role, self._node, state)

    def stop(self) -> None:
        """Unlists its server and ends it."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(_until_done(self._task, self._raylet))


# Not a method: Ray would make the actor one of coroutines.
async def _until_done(task: "asyncio.Task[None]", raylet: int) -> None:
    """Until a task is cancelled. Ends this process with its raylet, and if the task fails: Ray
    starts it again.
    """  # noqa: D205
    while not (await asyncio.wait([task], timeout=_LOOK_S))[0]:
        if os.getppid() != raylet:
            os._exit(1)
    if not task.cancelled():
        _LOG.error("the supervisor failed", exc_info=task.exception())
        os._exit(1)


class Placement(AbstractContextManager):
    """A plan's workers on a Ray cluster that the caller has connected to. A context manager.

    Each group has a placement group of its own, so that each role is spread over the nodes: a node
    that fails takes as few of each role with it as can be. What was there comes up on other nodes,
    or waits for one.
    """

    def __init__(self, plan: Plan, *, place_s: float = 60.0) -> None:
        """Places them; ClusterError if the nodes do not have what they need within `place_s`."""
        self._actors: list[tuple[ServerSpec, ray.actor.ActorHandle]] = []
        self._groups: list[PlacementGroup] = []
        try:
            for group, servers in plan.servers():
                self._place(plan, group, servers, place_s)
        except BaseException:
            self.close()
            raise

    def _place(self, plan: Plan, group: Group, servers: list[ServerSpec], place_s: float) -> None:
        resources = dict(group.resources)
        bundles = placement_group([resources] * group.count, strategy="SPREAD")
        self._groups.append(bundles)
        if not bundles.wait(place_s):
            raise ClusterError(
                f"no nodes for {group.count} of {group.role}, each with {resources}: Ray has"
                f" {ray.available_resources()} free. Add nodes, or take less; a node offers what"
                " `ray start --resources` names"
            )
        cpus, gpus = resources.pop("CPU", 0), resources.pop("GPU", 0)
        for index, spec in enumerate(servers):
            actor = ray.remote(WorkerActor).options(
                num_cpus=cpus,
                num_gpus=gpus,
                resources=resources,
                max_restarts=-1,
                runtime_env={"env_vars": _NOT_BACKGROUND},
                scheduling_strategy=PlacementGroupSchedulingStrategy(bundles, index),
            )
            self._actors.append((spec, actor.remote(spec, plan)))

    def placed(self) -> list[PlacedWorker]:
        """All workers; those that do not answer, as while they are restarted, without a node."""
        asked = [(spec, actor.placed.remote()) for spec, actor in self._actors]
        ray.wait([answer for _, answer in asked], num_returns=len(asked), timeout=_ANSWER_S)
        return [self._answer(spec, answer) for spec, answer in asked]

    @staticmethod
    def _answer(spec: ServerSpec, answer: ray.ObjectRef) -> PlacedWorker:
        try:
            placed: PlacedWorker = ray.get(answer, timeout=0)
            return placed
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            failure = str(error).partition("\n")[0]
            return PlacedWorker(
                spec.name, spec.role, "", WorkerState(spec.name, spec.role, failure=failure)
            )

    def close(self) -> None:
        """Ends all servers, each unlisted before, and gives the nodes' resources back."""
        _end([actor for _, actor in self._actors])
        self._actors = []
        for group in self._groups:
            remove_placement_group(group)
        self._groups = []

    def __exit__(self, *exception: object) -> None:
        self.close()


def _end(actors: Sequence[Any]) -> None:
    stopped = [actor.stop.remote() for actor in actors]
    if stopped:
        ray.wait(stopped, num_returns=len(stopped), timeout=_END_S)
    for actor in actors:
        ray.kill(actor)
