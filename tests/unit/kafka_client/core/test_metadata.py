"""Metadata after responses that are later, earlier, or of a topic that was created again."""

from __future__ import annotations

from sharebroker_server.kafka_client.core.metadata import BrokerNode, ClusterMetadata, Leader
from sharebroker_server.kafka_wire.messages import MetadataResponse
from tests.testkit.tables import each

Part = MetadataResponse.MetadataResponsePartition
TopicRow = MetadataResponse.MetadataResponseTopic


def response(leaders: dict[int, tuple[int, int]], topic_id: str = "one", error: int = 0) -> MetadataResponse:
    parts = [
        Part(partition_index=index, leader_id=node, leader_epoch=epoch)
        for index, (node, epoch) in leaders.items()
    ]
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092, rack="r") for n in (1, 2)
    ]
    row = TopicRow(name="t", topic_id=topic_id, partitions=parts, error_code=error)
    return MetadataResponse(cluster_id="c", brokers=brokers, topics=[row])


def test_a_response_describes_brokers_and_leaders() -> None:
    seen = ClusterMetadata().updated(response({0: (1, 5), 1: (2, 3)}))
    assert seen.cluster_id == "c"
    assert seen.brokers == {n: BrokerNode(n, f"b{n}", 9092, "r") for n in (1, 2)}
    assert seen.topics["t"].id == "one"
    assert seen.leader("t", 1) == Leader(2, 3)
    assert seen.leader("t", 2) is None
    assert seen.leader("other", 0) is None


@each(
    "epoch, topic_id, leader",
    [
        (6, "one", Leader(2, 6)),
        (5, "one", Leader(2, 5)),
        (4, "one", Leader(1, 5)),  # older than what is known
        (4, "two", Leader(2, 4)),  # another topic of the same name
        (-1, "one", Leader(2, -1)),  # a broker without epochs
    ],
)
def test_a_leader_with_a_lower_epoch_is_ignored(epoch: int, topic_id: str, leader: Leader) -> None:
    seen = ClusterMetadata().updated(response({0: (1, 5)}))
    assert seen.updated(response({0: (2, epoch)}, topic_id)).leader("t", 0) == leader


@each("node", [-1, 3])
def test_a_partition_may_have_no_leader(node: int) -> None:
    assert ClusterMetadata().updated(response({0: (node, 5)})).leader("t", 0) is None


def test_added_partitions_appear_and_removed_ones_disappear() -> None:
    seen = ClusterMetadata().updated(response({0: (1, 5), 1: (1, 5)}))
    assert set(seen.updated(response({0: (1, 5), 2: (1, 0)})).topics["t"].leaders) == {0, 2}


def test_a_topic_with_an_error_keeps_its_last_leaders() -> None:
    seen = ClusterMetadata().updated(response({0: (1, 5)})).updated(response({}, error=29))
    assert seen.errors == {"t": 29}
    assert seen.leader("t", 0) == Leader(1, 5)
    assert seen.updated(response({0: (1, 5)})).errors == {}


def test_a_complete_response_lacks_the_topics_that_do_not_exist() -> None:
    empty = MetadataResponse(cluster_id="c", brokers=[], topics=[])
    seen = ClusterMetadata().updated(response({0: (1, 5)}))
    assert set(seen.updated(empty).topics) == {"t"}
    assert not seen.updated(empty, complete=True).topics
    older = seen.updated(response({0: (2, 4)}), complete=True)
    assert older.leader("t", 0) == Leader(1, 5)
    assert older.updated(response({}, error=3), complete=True).errors == {"t": 3}
    assert not older.updated(response({}, error=3), complete=True).updated(empty, complete=True).errors
