"""How clients learn who leads a partition that they asked for at the wrong broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.kafka.cluster_view.brokers import View
from sharebroker_server.kafka_wire.message_classes import Message

LED_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors with which a client is told the leader."""


def current_leader(view: View, part: TopicIdPartition, make: Callable[..., Message]) -> Message:
    """The leader of a partition as a `LeaderIdAndEpoch` of the API."""
    return make(leader_id=view.leader(*part), leader_epoch=view.epoch)


def node_endpoints(
    view: View, parts: Iterable[TopicIdPartition], make: Callable[..., Message]
) -> list[Message]:
    """Where the leaders of these partitions are, as a `NodeEndpoint` of the API each."""
    nodes = {view.leader(*part) for part in parts}
    return [
        make(node_id=broker.node_id, host=broker.host, port=broker.port)
        for node, broker in view.brokers.items()
        if node in nodes
    ]
