"""Requests that list topics or resources, and those of them about configs.

What the client has the right to is forwarded. All other items are served by this broker, which also finds the
errors of those without a right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sharebroker_server.catalog.topics import ResourceType
from sharebroker_server.gateway.kafka.api import alter_configs, describe_configs, incremental_alter_configs
from sharebroker_server.gateway.kafka.call import Api, Call
from sharebroker_server.gateway.kafka.forwarding.core.splitting import divide, in_order, replaced
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream
from sharebroker_server.gateway.kafka.topics import upstream_topic
from sharebroker_server.kafka_wire import messages
from sharebroker_server.kafka_wire.schema import Message, api_schema
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType


@dataclass(frozen=True, slots=True)
class ListedApi:
    """An API whose requests list topics or resources, and whose responses list their results.

    `items` and `results` are the arrays; `key` identifies an item and its result. `allowed` returns whether
    an item is forwarded. `of_controller` is whether the controller serves it, and not any broker.
    """

    api: Api
    response: type[Message]
    items: str
    results: str
    key: Callable[[Any], Any]
    allowed: Callable[[Call[Any], Any], bool]
    of_controller: bool = True


async def handle_listed(listed: ListedApi, upstream: Upstream, call: Call[Any]) -> Any:
    """Serves a request: the cluster has a part of it, and this broker the rest."""
    forwarded, own, join = divided(listed, call)
    if not forwarded:
        return await listed.api.handle(call)
    response, results = await forward(listed, upstream, call, forwarded)
    if own:
        here = await serve_here(listed, call, own)
        results = join(results, getattr(here, listed.results))
    return listed.response(**{listed.results: results, "throttle_time_ms": response.throttle_time_ms})


def divided(listed: ListedApi, call: Call[Any]) -> Any:
    """Divides the items of a request; those that it names twice are not forwarded."""
    items = getattr(call.request, listed.items)
    counted = Counter(map(listed.key, items))
    return divide(items, lambda item: counted[listed.key(item)] == 1 and listed.allowed(call, item))


async def forward(
    listed: ListedApi, upstream: Upstream, call: Call[Any], items: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Returns the response of the cluster, and its results in the order of the items."""
    key, request = listed.api.key, replaced(call.request, **{listed.items: items})
    wait = max(getattr(request, "timeout_ms", 0), 0) / 1000
    if listed.of_controller:
        response = await upstream.at_controller(key, call, request, wait)
    else:
        response = await upstream.at_any(key, call, request, wait)
    return response, in_order(map(listed.key, items), getattr(response, listed.results), listed.key)


async def serve_here(listed: ListedApi, call: Call[Any], items: Sequence[Any]) -> Any:
    """Returns this broker's response to some items of a request."""
    return await listed.api.handle(replace(call, request=replaced(call.request, **{listed.items: items})))


def _config_right(operation: AclOperation) -> Callable[[Call[Any], Any], bool]:
    def allowed(call: Call[Any], item: Any) -> bool:
        name = item.resource_name
        if item.resource_type != ResourceType.TOPIC or upstream_topic(call, name) is None:
            return False
        return call.rights.allows(operation, AclResourceType.TOPIC, name)

    return allowed


def _resource(item: Any) -> tuple[int, str]:
    return item.resource_type, item.resource_name


DESCRIBE_CONFIGS: Final = ListedApi(
    describe_configs.API,
    messages.DescribeConfigsResponse,
    "resources",
    "results",
    _resource,
    _config_right(AclOperation.DESCRIBE_CONFIGS),
    of_controller=False,
)
ALTER_CONFIGS: Final = ListedApi(
    alter_configs.API,
    messages.AlterConfigsResponse,
    "resources",
    "responses",
    _resource,
    _config_right(AclOperation.ALTER_CONFIGS),
)
INCREMENTAL_ALTER_CONFIGS: Final = replace(
    ALTER_CONFIGS, api=incremental_alter_configs.API, response=messages.IncrementalAlterConfigsResponse
)


async def handle_alter_configs(listed: ListedApi, upstream: Upstream, call: Call[Any]) -> Any:
    """Changes configs; those of the cluster's topics are changed there."""
    response = await handle_listed(listed, upstream, call)
    operation = api_schema(listed.api.key).name
    if not call.request.validate_only:
        for result in response.responses:
            if upstream_topic(call, result.resource_name) and result.resource_type == ResourceType.TOPIC:
                audit.change(operation, "TOPIC", result.resource_name, result.error_code)
    return response
