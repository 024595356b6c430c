"""DescribeConfigs (32): the effective configs of topics, groups and brokers, and their sources."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.config_views import ConfigEntry, describe
from sharebroker_server.catalog.records import ResourceType
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.configs import config_resource
from sharebroker_server.kafka_wire.messages import DescribeConfigsRequest, DescribeConfigsResponse

_Resource = DescribeConfigsRequest.DescribeConfigsResource
_Config = DescribeConfigsResponse.DescribeConfigsResourceResult


async def handle(call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    """Returns one result per resource."""
    return DescribeConfigsResponse(results=[_result(call, item) for item in call.request.resources])


def _result(
    call: Call[DescribeConfigsRequest], item: _Resource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=item.resource_type, resource_name=item.resource_name
    )
    try:
        result.configs = _configs(call, item)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _configs(call: Call[DescribeConfigsRequest], item: _Resource) -> list[_Config]:
    catalog = call.gateway.catalog
    resource = config_resource(call, item.resource_type, item.resource_name)
    names = item.configuration_keys
    return [
        _config(call, entry, read_only=resource.type is ResourceType.BROKER and not entry.key.dynamic)
        for entry in describe(catalog.catalog, catalog.static, resource)
        if not names or entry.name in names
    ]


def _config(call: Call[DescribeConfigsRequest], entry: ConfigEntry, *, read_only: bool) -> _Config:
    origins = entry.origins if call.request.include_synonyms else ()
    return _Config(
        name=entry.name,
        value=entry.value,
        read_only=read_only,
        config_source=entry.source,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in origins
        ],
        config_type=entry.type,
        documentation=entry.documentation if call.request.include_documentation else None,
    )


API = Api(32, (1, 4), handle, refusal(DescribeConfigsResponse, {"results": "resources"}))
