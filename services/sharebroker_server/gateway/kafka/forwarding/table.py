"""The served APIs with `--proxy`: those of `FORWARDED` replace the ones of the table."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from sharebroker_server.catalog.features import TRANSACTION
from sharebroker_server.gateway.kafka.api import api_versions, share_acknowledge, share_fetch
from sharebroker_server.gateway.kafka.call import Api, Call, KafkaListener
from sharebroker_server.gateway.kafka.forwarding import (
    configs,
    coordinators,
    deletions,
    groups,
    offsets,
    partitions,
    topics,
)
from sharebroker_server.gateway.kafka.forwarding.core.versions import limited
from sharebroker_server.gateway.kafka.forwarding.fetch import handle_fetch
from sharebroker_server.gateway.kafka.forwarding.produce import handle_produce
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest, ApiVersionsResponse

Handler = Callable[[Upstream, Call[Any]], Coroutine[Any, Any, Any]]

_ADD_PARTITIONS: Final = 24
_LAST_OF_CLIENTS: Final = 3
"""The last version of AddPartitionsToTxn that clients send; brokers send later ones."""

FORWARDED: Final[Mapping[int, Handler]] = {
    0: handle_produce,
    1: handle_fetch,
    2: partial(partitions.handle, offsets.LIST_OFFSETS),
    9: groups.handle_offset_fetch,
    15: groups.handle_describe,
    16: groups.handle_list,
    19: topics.handle_create,
    20: deletions.handle_delete,
    21: partial(partitions.handle, offsets.DELETE_RECORDS),
    22: coordinators.handle_init_producer_id,
    23: partial(partitions.handle, offsets.OFFSET_FOR_LEADER_EPOCH),
    _ADD_PARTITIONS: coordinators.handle_add_partitions,
    32: partial(configs.handle_listed, configs.DESCRIBE_CONFIGS),
    33: partial(configs.handle_alter_configs, configs.ALTER_CONFIGS),
    37: topics.handle_create_partitions,
    42: groups.handle_delete,
    44: partial(configs.handle_alter_configs, configs.INCREMENTAL_ALTER_CONFIGS),
    **{keyed.api.key: partial(coordinators.handle_keyed, keyed) for keyed in coordinators.KEYED},
}
"""The forwarded APIs by key."""


def pass_to(client: ClusterClient, listener: KafkaListener) -> None:
    """Passes requests of the listener's clients to a cluster."""

    def leader_epoch(topic: str, partition: int) -> int:
        leader = client.metadata.leader(topic, partition)
        return -1 if leader is None else leader.epoch

    listener.apis = forwarded_apis(listener.apis, Upstream(client))
    listener.upstream_epoch = leader_epoch


def forwarded_apis(apis: Mapping[int, Api], upstream: Upstream) -> dict[int, Api]:
    """Returns the served APIs, of which some are passed to the cluster."""
    found = dict(apis)
    for key, handle in FORWARDED.items():
        found[key] = replace(apis[key], handle=partial(handle, upstream), coalescing=None)
    first, last = found[_ADD_PARTITIONS].versions
    found[_ADD_PARTITIONS] = replace(found[_ADD_PARTITIONS], versions=(first, min(last, _LAST_OF_CLIENTS)))
    for module in (share_fetch, share_acknowledge):
        found[module.API.key] = replace(module.API, handle=partial(_without_hints, module.API))
    versions = partial(_api_versions, upstream, found)
    found[api_versions.API.key] = replace(api_versions.API, handle=versions)
    return found


async def _api_versions(
    upstream: Upstream, apis: Mapping[int, Api], call: Call[ApiVersionsRequest]
) -> ApiVersionsResponse:
    """Returns the APIs in the versions that the cluster has as well, and its level of transactions.

    Raises NETWORK_EXCEPTION while no broker of the cluster has been reached: the client connects again.
    """
    offered = await upstream.versions()
    call.listener.apis = limited(apis, FORWARDED, offered)
    response = await api_versions.handle(call)
    level = upstream.features.get(TRANSACTION, 0)
    features = [one for one in response.finalized_features if one.name != TRANSACTION]
    if level:
        features.append(
            ApiVersionsResponse.FinalizedFeatureKey(
                name=TRANSACTION, min_version_level=level, max_version_level=level
            )
        )
    response.finalized_features = features
    return response


async def _without_hints(api: Api, call: Call[Any]) -> Any:
    """Serves a request of a share consumer without hints at leaders.

    Their epochs are those of this cluster, and Metadata has the epochs of the other one.
    """
    response: Any = await api.handle(call)
    if response is not None and response.node_endpoints:
        response.node_endpoints = []
        for topic in response.responses:
            for result in topic.partitions:
                if "current_leader" in vars(result):
                    result.current_leader = response.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    return response
