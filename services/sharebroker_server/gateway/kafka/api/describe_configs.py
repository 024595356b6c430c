"""DescribeConfigs (32): the settings in force of topics, groups and brokers, and where they come from."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.config_views import ConfigEntry, describe
from sharebroker_server.catalog.records import ResourceType
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.configs import config_resource
from sharebroker_server.gateway.kafka.helpers.per_item import error_fields
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(32)


async def handle(call: Call) -> Message:
    """Each resource has its own result."""
    return _R.DescribeConfigsResponse(results=[_described(call, asked) for asked in call.request.resources])


def _described(call: Call, asked: Any) -> Message:
    try:
        return _result(asked, configs=_configs(call, asked))
    except KafkaError as error:
        return _result(asked, **error_fields(error))


def _configs(call: Call, asked: Any) -> list[Message]:
    catalog = call.gateway.catalog
    resource = config_resource(call, asked.resource_type, asked.resource_name)
    wanted = asked.configuration_keys
    return [
        _config(call, entry, read_only=resource.type is ResourceType.BROKER and not entry.key.dynamic)
        for entry in describe(catalog.catalog, catalog.static, resource)
        if not wanted or entry.name in wanted
    ]


def _config(call: Call, entry: ConfigEntry, *, read_only: bool) -> Message:
    origins = entry.origins if call.request.include_synonyms else ()
    return _R.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=read_only,
        config_source=entry.source,
        synonyms=[
            _R.DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in origins
        ],
        config_type=entry.type,
        documentation=entry.documentation if call.request.include_documentation else None,
    )


def _result(asked: Any, **fields: Any) -> Message:
    return _R.DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name, **fields
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.DescribeConfigsResponse(
        results=[_result(asked, **error_fields(error)) for asked in call.request.resources]
    )


API = Api(32, (1, 4), handle, _refuse)
