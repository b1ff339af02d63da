"""A plug-in's dealings with the node's kubelet: its socket, its registration, what pods hold."""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import grpc

from nearkv.kubernetes.api import VERSION, device_plugin, pod_resources

_LOG = logging.getLogger("nearkv.kubernetes")
_TIMEOUT_S = 10.0


class PluginRegistration:
    """A plug-in that kubelet knows, also after kubelet has begun anew. One event loop uses it.

    kubelet empties its folder when it begins: then the plug-in serves and registers again.
    """

    def __init__(
        self, folder: Path, resource: str, handlers: Callable[[], grpc.GenericRpcHandler]
    ) -> None:
        """`folder` has kubelet.sock in it, such as /var/lib/kubelet/device-plugins."""
        self._kubelet = folder / "kubelet.sock"
        self._socket = folder / f"{resource.replace('/', '_')}.sock"
        self._resource = resource
        self._handlers = handlers
        self._server: grpc.aio.Server | None = None
        self._registered_at: tuple[int, int] | None = None

    async def renew(self) -> None:
        """Registers, if kubelet has begun anew or does not know it yet; call it now and then."""
        with contextlib.suppress(FileNotFoundError):
            now = self._kubelet.stat()
            if self._registered_at == (now.st_ino, now.st_ctime_ns) and self._socket.exists():
                return
            await self.close()
            await self._serve()
            try:
                await self._register()
            except grpc.aio.AioRpcError as error:
                _LOG.warning("kubelet does not take %s: %s", self._resource, error.details())
                return
            self._registered_at = (now.st_ino, now.st_ctime_ns)
            _LOG.info("kubelet knows %s", self._resource)

    async def close(self) -> None:
        """Serves no more."""
        self._registered_at = None
        if self._server:
            await self._server.stop(None)
            self._server = None
        self._socket.unlink(missing_ok=True)

    async def _serve(self) -> None:
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix://{self._socket}")
        await self._server.start()

    async def _register(self) -> None:
        async with grpc.aio.insecure_channel(f"unix://{self._kubelet}") as channel:
            register = device_plugin.call(channel, "Registration", "Register", device_plugin.Empty)
            options = device_plugin.DevicePluginOptions(get_preferred_allocation_available=True)
            request = device_plugin.RegisterRequest(
                version=VERSION,
                endpoint=self._socket.name,
                resource_name=self._resource,
                options=options,
            )
            await register(request, timeout=_TIMEOUT_S)


async def units_in_use(socket: Path, resource: str) -> set[str] | None:
    """Those that pods of this node have, by kubelet's account; None: it does not say."""
    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        answer = pod_resources.ListPodResourcesResponse
        ask = pod_resources.call(channel, "PodResourcesLister", "List", answer)
        try:
            listed = await ask(pod_resources.ListPodResourcesRequest(), timeout=_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            _LOG.warning("kubelet does not say what pods have: %s", error.details())
            return None
    return {
        unit
        for pod in listed.pod_resources
        for container in pod.containers
        for devices in container.devices
        if devices.resource_name == resource
        for unit in devices.device_ids
    }
