"""ListConfigResources (74): the resources that have configs; version 0 lists client metrics only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import ResourceType
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.topics import topics
from sharebroker_server.kafka_wire.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from sharebroker_server.security.acl import AclOperation

_BROKER_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
_KINDS: Final = (ResourceType.TOPIC, ResourceType.BROKER, _BROKER_LOGGER, _CLIENT_METRICS, ResourceType.GROUP)


async def handle(call: Call[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
    """Raises UNSUPPORTED_VERSION for an unknown type."""
    call.rights.require_on_cluster(AclOperation.DESCRIBE_CONFIGS)
    kinds = [_CLIENT_METRICS] if call.version == 0 else call.request.resource_types or _KINDS
    if unknown := set(kinds) - set(_KINDS):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unknown types of resources: {sorted(unknown)}.")
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(kinds)
            for name in _names(call, kind)
        ]
    )


def _names(call: Call, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return [topic.name for topic in topics(call)]
    if kind == ResourceType.BROKER:
        return map(str, call.view.brokers)
    if kind == ResourceType.GROUP:
        return call.gateway.catalog.catalog.configured(ResourceType.GROUP)
    return ()


API = Api(74, (0, 1), handle, Refusal(ListConfigResourcesResponse))
