"""Splitting of requests by partitions, and merging of the responses in the order of the request."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.kafka.forwarding.core.splitting import (
    Shape,
    divide,
    merge,
    replaced,
    split,
    without,
)
from sharebroker_server.kafka_wire.messages import ListOffsetsRequest, ListOffsetsResponse

SHAPE = Shape(ListOffsetsResponse.ListOffsetsTopicResponse)
Result = ListOffsetsResponse.ListOffsetsPartitionResponse


def request(*topics: tuple[str, list[int]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        isolation_level=1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(partition_index=index) for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


def answer(part: ListOffsetsRequest, offset: int) -> ListOffsetsResponse:
    """A broker's response: the results in reversed order, each with an offset of this broker."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    Result(partition_index=one.partition_index, offset=offset)
                    for one in reversed(topic.partitions)
                ],
            )
            for topic in reversed(part.topics)
        ]
    )


def missing(part: ListOffsetsRequest.ListOffsetsPartition) -> Result:
    return Result(partition_index=part.partition_index, error_code=-1)


def named(message: ListOffsetsRequest | ListOffsetsResponse) -> list[tuple[str, int]]:
    return [(topic.name, one.partition_index) for topic in message.topics for one in topic.partitions]


PARTS = st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 3), max_size=4)), max_size=4)


@given(PARTS, st.data())
def test_merged_results_have_the_order_of_the_request(
    topics: list[tuple[str, list[int]]], data: st.DataObject
) -> None:
    whole = request(*topics)
    leaders = {key: data.draw(st.integers(0, 2)) for key in dict.fromkeys(named(whole))}
    parts = split(SHAPE, whole, [leaders[key] for key in named(whole)])
    assert Counter(key for part in parts.values() for key in named(part)) == Counter(named(whole))
    assert all(leaders[key] == node for node, part in parts.items() for key in named(part))
    assert all(part.isolation_level == 1 for part in parts.values())
    answers = [answer(part, node) for node, part in parts.items()]
    topics_of: Any = merge(SHAPE, whole, answers, missing)
    merged = ListOffsetsResponse(topics=topics_of)
    assert named(merged) == named(whole)
    assert [one.offset for topic in merged.topics for one in topic.partitions] == [
        leaders[key] for key in named(whole)
    ]


def test_a_partition_without_a_result_has_that_of_missing() -> None:
    whole = request(("a", [0, 1]))
    part = request(("a", [1]))
    topic: Any
    (topic,) = merge(SHAPE, whole, [answer(part, 7)], missing)
    assert [(one.error_code, one.offset) for one in topic.partitions] == [(-1, -1), (0, 7)]


def test_divided_items_are_joined_in_their_order() -> None:
    forwarded, own, join = divide([1, 2, 3, 4], lambda number: number % 2 == 0)
    assert (forwarded, own) == ([2, 4], [1, 3])
    assert join(["b", "d"], ["a", "c"]) == ["a", "b", "c", "d"]


def test_changed_copies_leave_the_message_unchanged() -> None:
    whole = request(("a", [0]))
    assert replaced(whole, isolation_level=0).isolation_level == 0
    assert without(whole, "topics").topics == ()
    assert (whole.isolation_level, named(whole)) == (1, [("a", 0)])
