"""Topics and partitions by name and id."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import OFFSETS_TOPIC, OFFSETS_TOPIC_ID
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.topics import (
    ON_CLUSTER,
    ON_GROUP,
    ON_TOPIC,
    Located,
    Rejected,
    authorized_operations,
    by_topic,
    each_partition,
    is_internal,
    locate,
    topic_by_id,
    topic_of,
    topics,
)
from sharebroker_server.kafka_wire.messages import ListOffsetsRequest, ListOffsetsResponse
from tests.unit.gateway.fakes import TOPIC


def test_internal_topics_are_listed(call: Call) -> None:
    found = {topic.name: is_internal(topic) for topic in topics(call)}
    assert found == {TOPIC.name: False, OFFSETS_TOPIC: True, "__share_group_state": True}


def test_topics_are_found_by_name_and_id(call: Call) -> None:
    assert topic_of(call, TOPIC.name) == topic_of(call, None, TOPIC.topic_id) == TOPIC
    internal = topic_by_id(call, OFFSETS_TOPIC_ID)
    assert internal is not None
    assert topic_of(call, OFFSETS_TOPIC).topic_id == internal.topic_id == OFFSETS_TOPIC_ID
    with pytest.raises(KafkaError) as error:
        topic_of(call, None, "C" * 21 + "A")
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("name", "index", "epoch", "code"),
    [
        ("unknown", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC.name, 2, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC.name, 0, 2, ErrorCode.FENCED_LEADER_EPOCH),
        (TOPIC.name, 0, 4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_unserved_partitions_have_an_error(
    call: Call, name: str, index: int, epoch: int, code: ErrorCode
) -> None:
    rejected = locate(call, "item", index, epoch, name=name)
    assert isinstance(rejected, Rejected)
    assert (rejected.item, rejected.error.code) == ("item", code)
    assert locate(call, "item", 0, 3, name=TOPIC.name) == Located(TOPIC, "item")


async def test_results_keep_the_order_and_internal_topics_are_first(call: Call) -> None:
    order: list[str] = []

    async def ordinary(located: list[Located[int]]) -> Sequence[str]:
        order.append("ordinary")
        return [f"ordinary {one.item}" for one in located]

    async def internal(located: list[Located[int]]) -> Sequence[str]:
        order.append("internal")
        return [f"internal {one.item}" for one in located]

    names = [TOPIC.name, "unknown", OFFSETS_TOPIC, TOPIC.name]
    located = [locate(call, number, 0, name=name) for number, name in enumerate(names)]
    results = await each_partition(located, ordinary, internal, lambda one: f"rejected {one.item}")
    assert results == ["ordinary 0", "rejected 1", "internal 2", "ordinary 3"]
    assert order == ["internal", "ordinary"]


def test_results_are_grouped_by_topic() -> None:
    partition = ListOffsetsRequest.ListOffsetsPartition()
    first = ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=[partition, partition])
    second = ListOffsetsRequest.ListOffsetsTopic(name="b", partitions=[partition])
    results = [ListOffsetsResponse.ListOffsetsPartitionResponse(offset=number) for number in (1, 2, 3)]
    made = by_topic([first, second], results, ListOffsetsResponse.ListOffsetsTopicResponse)
    assert [(topic.name, topic.partitions) for topic in made] == [("a", results[:2]), ("b", results[2:])]


def operations(bits: int) -> set[int]:
    return {number for number in range(16) if bits >> number & 1}


def test_all_operations_are_authorized() -> None:
    assert operations(authorized_operations(ON_TOPIC, requested=True)) == {3, 4, 5, 6, 7, 8, 10, 11}
    assert operations(authorized_operations(ON_GROUP, requested=True)) == {3, 6, 8, 10, 11}
    assert operations(authorized_operations(ON_CLUSTER, requested=True)) == {5, 7, 8, 9, 10, 11, 12}


def test_unrequested_authorized_operations_have_kafkas_default() -> None:
    kinds = (ON_TOPIC, ON_GROUP, ON_CLUSTER)
    values = {authorized_operations(kind, requested=False) for kind in kinds}
    assert values == {-(1 << 31)}
