"""Leader hints."""

from __future__ import annotations

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.kafka.cluster_view.brokers import ClusterView
from sharebroker_server.gateway.kafka.cluster_view.leader_hints import current_leader, node_endpoints
from sharebroker_server.kafka_wire.messages import FetchResponse
from tests.unit.gateway.kafka.api.harness import LOCAL, PEER

VIEW = ClusterView((LOCAL, PEER), 1, 3, lambda _: 0, lambda _: 4)


def test_the_leader_and_its_epoch() -> None:
    for index in range(4):
        hint = current_leader(VIEW, TopicIdPartition("t", index), FetchResponse.LeaderIdAndEpoch)
        assert (hint.leader_id, hint.leader_epoch) == (VIEW.leader("t", index), 3)


def test_each_leader_has_one_endpoint() -> None:
    partitions = [TopicIdPartition("t", index) for index in range(4)]
    endpoints = node_endpoints(VIEW, partitions, FetchResponse.NodeEndpoint)
    assert [(one.node_id, one.host, one.port) for one in endpoints] == [
        (1, "127.0.0.1", 9092),
        (2, "127.0.0.1", 9093),
    ]
    assert node_endpoints(VIEW, [], FetchResponse.NodeEndpoint) == []
