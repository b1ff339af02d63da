"""Envoy's messages about one HTTP exchange, read and written (ext_proc v3).

Keys and namespaces are those of the Gateway API's endpoint picker protocol, version 1.0.0, and of
llm-d for the engine that prefills.
"""

from collections.abc import Mapping

from envoy.config.core.v3.base_pb2 import HeaderValueOption, Metadata
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.struct_pb2 import Struct

from nearkv.router.placing import Refused
from nearkv.router.proxy.errors import error_text

DESTINATION = "x-gateway-destination-endpoint"
SERVED = "x-gateway-destination-endpoint-served"
SUBSET = "x-gateway-destination-endpoint-subset"
PREFILLER = "x-prefiller-host-port"
PICKED_NAMESPACE = "envoy.lb"
SUBSET_NAMESPACE = "envoy.lb.subset_hint"


def headers_of(message: pb.HttpHeaders) -> dict[str, str]:
    """Names are in lower case, as Envoy has them; of one that is there twice, the last."""
    return {
        header.key: header.value or header.raw_value.decode("latin-1")
        for header in message.headers.headers
    }


def subset_of(metadata: Metadata) -> frozenset[str] | None:
    """The endpoints that may be picked; None: all of them."""
    fields = metadata.filter_metadata[SUBSET_NAMESPACE].fields
    if SUBSET not in fields:
        return None
    value = fields[SUBSET]
    if value.WhichOneof("kind") == "list_value":
        listed = [each.string_value for each in value.list_value.values]
    else:
        listed = value.string_value.split(",")
    return frozenset(endpoint.strip() for endpoint in listed if endpoint.strip())


def served_of(message: pb.ProcessingRequest) -> str:
    """The endpoint that answered; empty: none, or Envoy does not say.

    Gateways say it in metadata; Envoy itself if its response_attributes have upstream.address.
    """
    told = message.metadata_context.filter_metadata[PICKED_NAMESPACE].fields[SERVED].string_value
    if told:
        return told
    addresses = (each.fields["upstream.address"] for each in message.attributes.values())
    return next((each.string_value for each in addresses if each.string_value), "")


def with_destination(
    answer: pb.ProcessingResponse,
    common: pb.CommonResponse,
    destination: str,
    prefiller: str | None,
) -> pb.ProcessingResponse:
    """Lets an answer say where the request goes, in a header and in metadata alike.

    Whatever the client itself said there is overwritten or removed.
    """
    mutation = common.header_mutation
    mutation.set_headers.append(_header(DESTINATION, destination))
    if prefiller is None:
        mutation.remove_headers.append(PREFILLER)
    else:
        mutation.set_headers.append(_header(PREFILLER, prefiller))
    picked = Struct()
    picked[DESTINATION] = destination
    answer.dynamic_metadata[PICKED_NAMESPACE] = picked
    return answer


def streamed(chunk: bytes, is_last: bool) -> pb.CommonResponse:
    """A piece of a body that goes on as it came: with full duplex, Envoy keeps none of it."""
    common = pb.CommonResponse()
    common.body_mutation.streamed_response.body = chunk
    common.body_mutation.streamed_response.end_of_stream = is_last
    return common


def immediate(refused: Refused) -> pb.ProcessingResponse:
    """An answer to the client in an engine's place, with an error as OpenAI's API has them."""
    answer = pb.ProcessingResponse()
    told = answer.immediate_response
    told.status.code = refused.status
    told.body = error_text(refused.text, refused.status).encode()
    told.details = "nearkv_refused"
    headers: Mapping[str, str] = {"content-type": "application/json"}
    if refused.retry_after_s is not None:
        headers = {**headers, "retry-after": str(refused.retry_after_s)}
    told.headers.set_headers.extend(_header(name, value) for name, value in headers.items())
    return answer


def _header(name: str, value: str) -> HeaderValueOption:
    option = HeaderValueOption(append_action=HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD)
    option.header.key = name
    option.header.raw_value = value.encode("latin-1")
    return option
