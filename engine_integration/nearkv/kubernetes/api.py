"""kubelet's interfaces for device plug-ins (v1beta1) and for what pods hold (podresources v1).

Their messages are made here from the numbers and types that Kubernetes publishes, as far as they
are used; no package carries them. Unknown fields pass unharmed, as protobuf has it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VERSION = "v1beta1"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

_Fields = Mapping[str, tuple[int, str]]  # a number and a type: a scalar's, a message's; * is a list
_TEXTS = "{string}"  # a map from texts to texts

_DEVICE_PLUGIN: Mapping[str, _Fields] = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool"),
        "get_preferred_allocation_available": (2, "bool"),
    },
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "NUMANode": {"ID": (1, "int64")},
    "TopologyInfo": {"nodes": (1, "*NUMANode")},
    "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
    "ListAndWatchResponse": {"devices": (1, "*Device")},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "*string"),
        "must_include_deviceIDs": (2, "*string"),
        "allocation_size": (3, "int32"),
    },
    "PreferredAllocationRequest": {
        "container_requests": (1, "*ContainerPreferredAllocationRequest")
    },
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "*string")},
    "PreferredAllocationResponse": {
        "container_responses": (1, "*ContainerPreferredAllocationResponse")
    },
    "ContainerAllocateRequest": {"devices_ids": (1, "*string")},
    "AllocateRequest": {"container_requests": (1, "*ContainerAllocateRequest")},
    "Mount": {
        "container_path": (1, "string"),
        "host_path": (2, "string"),
        "read_only": (3, "bool"),
    },
    "DeviceSpec": {
        "container_path": (1, "string"),
        "host_path": (2, "string"),
        "permissions": (3, "string"),
    },
    "ContainerAllocateResponse": {
        "envs": (1, _TEXTS),
        "mounts": (2, "*Mount"),
        "devices": (3, "*DeviceSpec"),
        "annotations": (4, _TEXTS),
    },
    "AllocateResponse": {"container_responses": (1, "*ContainerAllocateResponse")},
}
_POD_RESOURCES: Mapping[str, _Fields] = {
    "ListPodResourcesRequest": {},
    "ContainerDevices": {"resource_name": (1, "string"), "device_ids": (2, "*string")},
    "ContainerResources": {"name": (1, "string"), "devices": (2, "*ContainerDevices")},
    "PodResources": {
        "name": (1, "string"),
        "namespace": (2, "string"),
        "containers": (3, "*ContainerResources"),
    },
    "ListPodResourcesResponse": {"pod_resources": (1, "*PodResources")},
}


class Interface:
    """The messages of one package, as attributes, and calls of its services."""

    def __init__(self, package: str, messages: Mapping[str, _Fields]) -> None:
        file = descriptor_pb2.FileDescriptorProto(
            name=f"nearkv/{package}.proto", package=package, syntax="proto3"
        )
        for name, fields in messages.items():
            _describe(file.message_type.add(name=name), package, fields)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._package = package
        self._classes = {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
            for name in messages
        }

    def __getattr__(self, name: str) -> Any:
        try:
            return self._classes[name]
        except KeyError:
            raise AttributeError(name) from None

    def call(
        self, channel: Any, service: str, method: str, answer: Any, *, stream: bool = False
    ) -> Any:
        """A client's call of a method."""
        make = channel.unary_stream if stream else channel.unary_unary
        return make(
            f"/{self._package}.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )

    def handlers(
        self, service: str, methods: Mapping[str, tuple[Any, Callable[..., Any], bool]]
    ) -> grpc.GenericRpcHandler:
        """A server's methods: what each is asked, who answers, and whether with a stream."""
        made = {}
        for name, (request, behaviour, is_stream) in methods.items():
            make = (
                grpc.unary_stream_rpc_method_handler
                if is_stream
                else grpc.unary_unary_rpc_method_handler
            )
            made[name] = make(
                behaviour,
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        return grpc.method_handlers_generic_handler(f"{self._package}.{service}", made)


def _describe(message: Any, package: str, fields: _Fields) -> None:
    field_type = descriptor_pb2.FieldDescriptorProto
    for name, (number, kind) in fields.items():
        field = message.field.add(name=name, number=number, label=field_type.LABEL_OPTIONAL)
        if kind == _TEXTS:
            entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
            entry.options.map_entry = True
            _describe(entry, package, {"key": (1, "string"), "value": (2, "string")})
            kind = f"*{message.name}.{entry.name}"
        if kind.startswith("*"):
            field.label = field_type.LABEL_REPEATED
            kind = kind[1:]
        scalar = getattr(field_type, f"TYPE_{kind.upper()}", None)
        field.type = scalar or field_type.TYPE_MESSAGE
        if scalar is None:
            field.type_name = f".{package}.{kind}"


device_plugin = Interface(VERSION, _DEVICE_PLUGIN)
pod_resources = Interface("v1", _POD_RESOURCES)
