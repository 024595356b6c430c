"""Topics and partitions by name and id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import OFFSETS_TOPIC, OFFSETS_TOPIC_ID
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.topics import (
    PORTION,
    Located,
    Rejected,
    by_topic,
    describable_topics,
    each_partition,
    is_internal,
    locate,
    topic_by_id,
    topic_of,
    topics,
)
from sharebroker_server.kafka_wire.messages import ListOffsetsRequest, ListOffsetsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

READ = AclOperation.READ


def test_internal_topics_are_listed(call: Call) -> None:
    found = {topic.name: is_internal(topic) for topic in topics(call)}
    assert found == {TOPIC.name: False, OFFSETS_TOPIC: True, "__share_group_state": True}


def test_topics_are_found_by_name_and_id(call: Call) -> None:
    assert topic_of(call, READ, TOPIC.name) == topic_of(call, READ, None, TOPIC.topic_id) == TOPIC
    internal = topic_by_id(call, OFFSETS_TOPIC_ID)
    assert internal is not None
    assert topic_of(call, READ, OFFSETS_TOPIC).topic_id == internal.topic_id == OFFSETS_TOPIC_ID
    with pytest.raises(KafkaError) as error:
        topic_of(call, READ, None, "C" * 21 + "A")
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
    rejected = locate(call, READ, "item", index, epoch, name=name)
    assert isinstance(rejected, Rejected)
    assert (rejected.item, rejected.error.code) == ("item", code)
    assert locate(call, READ, "item", 0, 3, name=TOPIC.name) == Located(TOPIC, "item")


async def test_results_keep_the_order_and_internal_topics_are_first(call: Call) -> None:
    order: list[str] = []

    async def ordinary(located: list[Located[int]]) -> Sequence[str]:
        order.append("ordinary")
        return [f"ordinary {one.item}" for one in located]

    async def internal(located: list[Located[int]]) -> Sequence[str]:
        order.append("internal")
        return [f"internal {one.item}" for one in located]

    names = [TOPIC.name, "unknown", OFFSETS_TOPIC, TOPIC.name]
    located = [locate(call, READ, number, 0, name=name) for number, name in enumerate(names)]
    results = await each_partition(located, ordinary, internal, lambda one: f"rejected {one.item}")
    assert results == ["ordinary 0", "rejected 1", "internal 2", "ordinary 3"]
    assert order == ["internal", "ordinary"]


@pytest.mark.parametrize("in_turns", [True, False])
async def test_many_partitions_are_served_in_portions(call: Call, *, in_turns: bool) -> None:
    served: list[int] = []
    turns = 0

    async def serve(located: list[Located[int]]) -> Sequence[int]:
        served.append(len(located))
        return [one.item for one in located]

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    number = 3 * PORTION + 1
    located = (locate(call, READ, item, 0, name=TOPIC.name) for item in range(number))
    task = asyncio.create_task(others())
    results = await each_partition(
        located, serve, serve, lambda _: -1, call.gateway.turns if in_turns else None
    )
    task.cancel()
    assert results == [*range(number)]
    assert served == ([PORTION] * 3 + [1] if in_turns else [number])
    assert (turns >= 6) == in_turns


async def test_results_are_grouped_by_topic(api_harness: Harness) -> None:
    partition = ListOffsetsRequest.ListOffsetsPartition()
    first = ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=[partition, partition])
    second = ListOffsetsRequest.ListOffsetsTopic(name="b", partitions=[partition])
    results = [ListOffsetsResponse.ListOffsetsPartitionResponse(offset=number) for number in (1, 2, 3)]
    call = api_harness.call_of(ListOffsetsRequest(topics=[first, second]))
    made = await by_topic(call, results, ListOffsetsResponse.ListOffsetsTopicResponse)
    assert [(topic.name, topic.partitions) for topic in made] == [("a", results[:2]), ("b", results[2:])]


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        (TOPIC.name, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (None, TOPIC.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("unknown", "", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (None, "C" * 21 + "A", ErrorCode.UNKNOWN_TOPIC_ID),
        (OFFSETS_TOPIC, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_forbidden_name_looks_the_same_whether_or_not_the_topic_exists(
    api_harness: Harness, call: Call, name: str | None, topic_id: str, code: ErrorCode
) -> None:
    authorizer = api_harness.gateway.authorizer = TableAuthorizer()
    authorizer.deny(READ, AclResourceType.TOPIC)
    rejected = locate(call, READ, "item", 0, name=name, topic_id=topic_id)
    assert isinstance(rejected, Rejected)
    assert rejected.error.code is code
    assert locate(call, AclOperation.DESCRIBE, "item", 0, name=TOPIC.name) == Located(TOPIC, "item")


async def test_topics_that_the_client_may_not_describe_are_left_out(api_harness: Harness, call: Call) -> None:
    authorizer = api_harness.gateway.authorizer = TableAuthorizer()
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, OFFSETS_TOPIC)
    assert {topic.name for topic in await describable_topics(call)} == {TOPIC.name, "__share_group_state"}
