"""The device plug-in: what kubelet asks about pools, and is told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from nearkv.kubernetes.api import HEALTHY, UNHEALTHY, device_plugin
from nearkv.kubernetes.pools import Access, PoolError, Pools, Unit, preferred

_OPTIONS = device_plugin.DevicePluginOptions(get_preferred_allocation_available=True)


class DevicePlugin:
    """Answers kubelet for one resource. One event loop uses it."""

    def __init__(self, pools: Pools, *, poll_s: float) -> None:
        """Pools are looked at again every `poll_s`."""
        self._pools = pools
        self._poll_s = poll_s

    def handlers(self) -> grpc.GenericRpcHandler:
        """For a grpc.aio.server."""
        api = device_plugin
        return api.handlers(
            "DevicePlugin",
            {
                "GetDevicePluginOptions": (api.Empty, self._options, False),
                "ListAndWatch": (api.Empty, self._list_and_watch, True),
                "GetPreferredAllocation": (
                    api.PreferredAllocationRequest,
                    self._preferred_allocation,
                    False,
                ),
                "Allocate": (api.AllocateRequest, self._allocate, False),
            },
        )

    async def _options(self, request: Any, context: Any) -> Any:
        return _OPTIONS

    async def _list_and_watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """All units, and again whenever one of them comes, goes or fails."""
        told: list[Unit] | None = None
        while True:
            units = await self._pools.units()
            if units != told:
                told = units
                yield device_plugin.ListAndWatchResponse(devices=map(_device, units))
            await asyncio.sleep(self._poll_s)

    async def _preferred_allocation(self, request: Any, context: Any) -> Any:
        answer = device_plugin.PreferredAllocationResponse()
        for asked in request.container_requests:
            answer.container_responses.add().deviceIDs.extend(
                preferred(
                    asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size
                )
            )
        return answer

    async def _allocate(self, request: Any, context: Any) -> Any:
        answer = device_plugin.AllocateResponse()
        try:
            for asked in request.container_requests:
                access = await self._pools.give(asked.devices_ids)
                _fill(answer.container_responses.add(), access)
        except PoolError as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        return answer


def _device(unit: Unit) -> Any:
    device = device_plugin.Device(ID=unit.id, health=HEALTHY if unit.is_healthy else UNHEALTHY)
    if unit.numa_node is not None:
        device.topology.nodes.add(ID=unit.numa_node)
    return device


def _fill(told: Any, access: Access) -> None:
    told.envs.update(access.environment)
    for path in access.mounts:
        told.mounts.add(container_path=path, host_path=path)
    for path in access.devices:
        told.devices.add(container_path=path, host_path=path, permissions="rw")
