"""Configs of brokers, groups and topics: changed by the owner of the catalog, described here."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.config_views import describe
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.gateway.admin.dead_letter_topics import own_sources
from sharebroker_server.gateway.admin.visibility import await_visible
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security import audit

MAX_DESCRIBED: Final = 2_000
"""Resources of one DescribeConfigs. A topic has about 40 configs: 4 KB, with documentation 10 KB."""

DESCRIBED_AT_ONCE: Final = 10
"""Resources that are described in one turn of the event loop, which takes milliseconds."""


async def alter_configs(
    gateway: Gateway, request: pb.IncrementalAlterConfigsRequest, deadline: Deadline
) -> pb.IncrementalAlterConfigsResponse:
    """Changes configs; returns when the metadata cache has them. Raises KafkaError."""
    with audit.changing("AlterConfigs", "CONFIG", map(_config_resource, request.resources)):
        response = await _altered(gateway, request, deadline)
    if not request.validate_only:
        for resource in response.responses:
            configs_set = {config.name: _value(config) for config in resource.configs}
            name = _config_resource(resource)
            audit.change("AlterConfigs", "CONFIG", name, resource.error_code, configs=configs_set)
        configs = [
            (ConfigResource(ResourceType(each.resource_type), each.resource_name), config)
            for each in response.responses
            for config in each.configs
        ]
        await await_visible(
            gateway, lambda catalog: all(_is_set(catalog, *each) for each in configs), deadline
        )
    return response


async def _altered(
    gateway: Gateway, request: pb.IncrementalAlterConfigsRequest, deadline: Deadline
) -> pb.IncrementalAlterConfigsResponse:
    """Has the owner of the catalog change the configs of all resources that are not refused here."""
    refused = await own_sources(gateway, request, deadline)
    sent = pb.IncrementalAlterConfigsRequest(
        resources=[one for index, one in enumerate(request.resources) if index not in refused],
        validate_only=request.validate_only,
    )
    response = await gateway.coordinators.of_catalog(
        lambda stub, left: stub.IncrementalAlterConfigs(sent, timeout=left), deadline
    )
    for index, result in sorted(refused.items()):
        response.responses.insert(index, result)
    return response


def _config_resource(
    resource: pb.IncrementalAlterConfigsRequest.Resource | pb.IncrementalAlterConfigsResponse.Resource,
) -> str:
    """Returns type and name of a resource: `topic orders`."""
    known = {int(kind): kind.name.lower() for kind in ResourceType}
    return f"{known.get(resource.resource_type, resource.resource_type)} {resource.resource_name}"


def _value(config: pb.IncrementalAlterConfigsResponse.Config) -> str | None:
    """Returns the new value, None for the default. No config that the catalog stores is a secret."""
    return config.value if config.HasField("value") else None


async def describe_configs(
    gateway: Gateway, request: admin.DescribeConfigsRequest
) -> admin.DescribeConfigsResponse:
    """Returns the effective config of each resource. Raises INVALID_REQUEST for too many."""
    check_described(request.resources)
    described = (_configs(gateway, resource) for resource in request.resources)
    return admin.DescribeConfigsResponse(results=await gateway.turns.collect(described, DESCRIBED_AT_ONCE))


def check_described(resources: Sized) -> None:
    """Raises INVALID_REQUEST for more than `MAX_DESCRIBED` resources."""
    if len(resources) > MAX_DESCRIBED:
        text = f"{len(resources)} resources are requested; one request may have {MAX_DESCRIBED}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _configs(
    gateway: Gateway, requested: admin.DescribeConfigsRequest.Resource
) -> admin.DescribeConfigsResponse.Result:
    result = admin.DescribeConfigsResponse.Result(
        resource_type=requested.resource_type, resource_name=requested.resource_name
    )
    try:
        resource = ConfigResource(_resource_type(requested.resource_type), requested.resource_name)
        entries = describe(gateway.catalog.catalog, gateway.config, resource)
    except KafkaError as error:
        result.error_code = wire(error.code)
        result.error_message = error.message
        return result
    for entry in entries:
        if not requested.configuration_keys or entry.name in requested.configuration_keys:
            result.configs.add(
                name=entry.name,
                value=entry.value,
                is_default=entry.is_default,
                documentation=entry.documentation,
            )
    return result


def _resource_type(number: int) -> ResourceType:
    try:
        return ResourceType(number)
    except ValueError:
        raise invalid_field("resource_type", f"{number} is no resource type with configs.") from None


def _is_set(
    catalog: TopicCatalog, resource: ConfigResource, config: pb.IncrementalAlterConfigsResponse.Config
) -> bool:
    return catalog.configs(resource).get(config.name) == (config.value if config.HasField("value") else None)
