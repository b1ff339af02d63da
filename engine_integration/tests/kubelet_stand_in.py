"""A stand-in for kubelet, which does not run here: its side of the device plug-in's interface.

It registers one plug-in, lists its devices, allocates as kubelet's device manager does, and says
what pods have. The messages are the plug-in's own; test_kubernetes_plugin.py holds their bytes to
what Kubernetes publishes.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import grpc

from nearkv.kubernetes.api import device_plugin, pod_resources


class KubeletStandIn:
    """An async context manager. `pods` are what podresources tells: units by pod."""

    def __init__(self, folder: Path) -> None:
        self.plugins, self.pod_resources = folder / "device-plugins", folder / "pods.sock"
        self.plugins.mkdir(exist_ok=True)
        self.registered: list[Any] = []
        self.devices: dict[str, Any] = {}
        self.pods: dict[str, list[str]] = {}
        self.changed = asyncio.Condition()
        self.refuses = ""
        self.refused = 0

    async def __aenter__(self) -> "KubeletStandIn":
        self._tasks: list[asyncio.Task[None]] = []
        self._server = grpc.aio.server()
        register = {"Register": (device_plugin.RegisterRequest, self._register, False)}
        listing = {"List": (pod_resources.ListPodResourcesRequest, self._list, False)}
        self._server.add_generic_rpc_handlers(
            (
                device_plugin.handlers("Registration", register),
                pod_resources.handlers("PodResourcesLister", listing),
            )
        )
        for socket in (self.plugins / "kubelet.sock", self.pod_resources):
            self._server.add_insecure_port(f"unix://{socket}")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(None)

    async def restart(self) -> None:
        """As kubelet does: it forgets who registered, and empties its folder."""
        await self.__aexit__()
        for socket in self.plugins.iterdir():
            socket.unlink()
        self.registered.clear()
        self.devices.clear()
        await self.__aenter__()

    async def until(self, condition: Any) -> None:
        async with self.changed:
            await self.changed.wait_for(condition)

    def healths(self) -> dict[str, str]:
        return {name: device.health for name, device in self.devices.items()}

    async def ask(self, method: str, request: Any, answer: Any) -> Any:
        async with self._channel() as channel:
            return await device_plugin.call(channel, "DevicePlugin", method, answer)(request)

    async def allocate(self, *containers: list[str]) -> Any:
        request = device_plugin.AllocateRequest()
        for units in containers:
            request.container_requests.add(devices_ids=units)
        return await self.ask("Allocate", request, device_plugin.AllocateResponse)

    def _channel(self) -> Any:
        return grpc.aio.insecure_channel(f"unix://{self.plugins / self.registered[-1].endpoint}")

    async def _register(self, request: Any, context: Any) -> Any:
        if self.refuses:
            self.refused += 1
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuses)
        self.registered.append(request)
        self._tasks.append(asyncio.create_task(self._watch()))
        return device_plugin.Empty()

    async def _watch(self) -> None:
        answer = device_plugin.ListAndWatchResponse
        with contextlib.suppress(grpc.aio.AioRpcError):
            async with self._channel() as channel:
                watch = device_plugin.call(
                    channel, "DevicePlugin", "ListAndWatch", answer, stream=True
                )
                async for told in watch(device_plugin.Empty()):
                    async with self.changed:
                        self.devices = {device.ID: device for device in told.devices}
                        self.changed.notify_all()

    async def _list(self, request: Any, context: Any) -> Any:
        told = pod_resources.ListPodResourcesResponse()
        for pod, units in self.pods.items():
            container = told.pod_resources.add(name=pod).containers.add(name="engine")
            container.devices.add(resource_name="nearkv.io/pool-gib", device_ids=units)
        return told
