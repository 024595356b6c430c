"""DescribeConfigs (32): the effective configs of topics, groups and brokers, and their sources."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.config_views import ConfigEntry, Origin, describe
from sharebroker_server.catalog.topics import ResourceType
from sharebroker_server.gateway.admin.configs import DESCRIBED_AT_ONCE, check_described
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.configs import config_resource
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.kafka_wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from sharebroker_server.security.acl import AclOperation

_Resource = DescribeConfigsRequest.DescribeConfigsResource
_Config = DescribeConfigsResponse.DescribeConfigsResourceResult
_config = to_kafka(ConfigEntry, _Config, {"config_source": "source", "config_type": "type"})
_synonym = to_kafka(Origin, DescribeConfigsResponse.DescribeConfigsSynonym)


async def handle(call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    """Returns one result per resource. Raises INVALID_REQUEST for too many."""
    resources = call.request.resources
    check_described(resources)
    results = (_result(call, item) for item in resources)
    return DescribeConfigsResponse(results=await call.gateway.turns.collect(results, DESCRIBED_AT_ONCE))


def _result(
    call: Call[DescribeConfigsRequest], item: _Resource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    result: DescribeConfigsResponse.DescribeConfigsResult = _refuse.item("results", item)
    try:
        result.configs = _configs(call, item)
    except KafkaError as error:
        return _refuse.item("results", item, error)  # type: ignore[no-any-return]
    return result


def _configs(call: Call[DescribeConfigsRequest], item: _Resource) -> list[_Config]:
    catalog = call.gateway.catalog
    resource = config_resource(call, AclOperation.DESCRIBE_CONFIGS, item.resource_type, item.resource_name)
    names = item.configuration_keys
    synonyms, documentation = call.request.include_synonyms, call.request.include_documentation
    return [
        _config(
            entry,
            read_only=resource.type is ResourceType.BROKER and not entry.key.dynamic,
            synonyms=list(map(_synonym, entry.origins if synonyms else ())),
            documentation=entry.documentation if documentation else None,
        )
        for entry in describe(catalog.catalog, catalog.static, resource)
        if not names or entry.name in names
    ]


_refuse = Refusal(DescribeConfigsResponse, {"results": "resources"})
API = Api(32, (1, 4), handle, _refuse)
