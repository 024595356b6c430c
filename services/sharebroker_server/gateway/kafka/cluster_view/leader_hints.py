"""Leader hints: the current leaders that a NOT_LEADER_OR_FOLLOWER response names (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.kafka.cluster_view.brokers import ClusterView

A = TypeVar("A")

LED_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors that come with a leader hint."""


def current_leader(view: ClusterView, partition: TopicIdPartition, make: Callable[..., A]) -> A:
    """Returns the leader of a partition as a `LeaderIdAndEpoch` of the API."""
    return make(leader_id=view.leader(*partition), leader_epoch=view.epoch)


def node_endpoints(
    view: ClusterView, partitions: Iterable[TopicIdPartition], make: Callable[..., A]
) -> list[A]:
    """Returns the addresses of the partitions' leaders, each as a `NodeEndpoint` of the API."""
    nodes = {view.leader(*partition) for partition in partitions}
    return [
        make(node_id=broker.node_id, host=broker.host, port=broker.port)
        for node, broker in view.brokers.items()
        if node in nodes
    ]
