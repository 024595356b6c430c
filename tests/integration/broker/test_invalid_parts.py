"""Requests whose parts are rejected one by one, each with code and text; nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from tests.integration.broker.harness import HELD, RECORDS, Harness, undisturbed
from tests.support.client import ACCEPT, REJECT, RELEASE, RENEW, TIMEOUT, Client, decision, rejection, unique

UNKNOWN_ID = "A" * 22


def codes(parts: Iterable[Any]) -> list[ErrorCode]:
    """Returns the code of each part; every error must have a text."""
    listed = list(parts)
    assert all(part.error_message for part in listed if part.error_code), listed
    return [ErrorCode(part.error_code) for part in listed]


# Acknowledgements of a share session


def runs(*batches: tuple[int, int, list[int]]) -> list[share.AcknowledgementBatch]:
    return [
        share.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in batches
    ]


BAD_BATCHES: Final[Mapping[str, tuple[list[share.AcknowledgementBatch], ErrorCode]]] = {
    "past the acquired records": (runs((HELD, HELD, [1])), ErrorCode.INVALID_REQUEST),
    "past the log": (runs((1000, 1001, [1])), ErrorCode.INVALID_REQUEST),
    "acquired and more": (runs((0, HELD, [1])), ErrorCode.INVALID_REQUEST),
    "overlapping": (runs((0, 2, [1]), (1, 3, [2])), ErrorCode.INVALID_REQUEST),
    "backwards": (runs((3, 1, [1])), ErrorCode.INVALID_REQUEST),
    "in the wrong order": (runs((2, 3, [1]), (0, 1, [1])), ErrorCode.INVALID_REQUEST),
    "too few types": (runs((0, 3, [1, 1])), ErrorCode.INVALID_REQUEST),
    "too many types": (runs((0, 1, [1, 1, 1])), ErrorCode.INVALID_REQUEST),
    "no types": (runs((0, 1, [])), ErrorCode.INVALID_REQUEST),
    "unknown type": (runs((0, 0, [5])), ErrorCode.INVALID_REQUEST),
    "negative type": (runs((0, 0, [-1])), ErrorCode.INVALID_REQUEST),
    "negative offset": (runs((-3, 0, [1])), ErrorCode.INVALID_REQUEST),
    "unannounced renewal": (runs((0, 0, [RENEW])), ErrorCode.INVALID_REQUEST),
    "held by another member": (runs((0, 0, [1])), ErrorCode.INVALID_RECORD_STATE),
    "fine at first, then not": (runs((0, 1, [1]), (2, 2, [7])), ErrorCode.INVALID_REQUEST),
}


async def test_request_with_an_invalid_acknowledgement_is_rejected_whole(client: Client) -> None:
    async with undisturbed(client) as harness:
        request = share.ShareFetchRequest(group_id=harness.group_id, member_id=unique("other"), max_records=0)
        await client.share.ShareFetch(request, timeout=TIMEOUT)
        refused = {}
        for epoch, (name, (batches, _)) in enumerate(BAD_BATCHES.items(), 1):
            response = await client.share.ShareAcknowledge(
                _session_acknowledge(harness, request.member_id, epoch, batches), timeout=TIMEOUT
            )
            (refused[name],) = codes(response.responses[0].partitions)
        assert refused == {name: code for name, (_, code) in BAD_BATCHES.items()}


async def test_session_receives_an_error_per_unknown_partition(client: Client) -> None:
    async with undisturbed(client) as harness:
        member = unique("other")
        partitions = [share.ShareFetchRequest.FetchPartition(partition_index=index) for index in (0, 1, -1)]
        response = await client.share.ShareFetch(
            share.ShareFetchRequest(
                group_id=harness.group_id,
                member_id=member,
                max_records=0,
                topics=[
                    share.ShareFetchRequest.FetchTopic(topic_id=harness.topic_id, partitions=partitions),
                    share.ShareFetchRequest.FetchTopic(topic_id=UNKNOWN_ID, partitions=partitions[:1]),
                ],
            ),
            timeout=TIMEOUT,
        )
        assert not response.error_code
        request = _session_acknowledge(harness, member, 1, runs((0, 0, [1])))
        request.topics[0].topic_id = UNKNOWN_ID
        refused = await client.share.ShareAcknowledge(request, timeout=TIMEOUT)
        assert codes(refused.responses[0].partitions) == [ErrorCode.UNKNOWN_TOPIC_ID]
        request = _session_acknowledge(harness, member, 2, runs((0, 0, [1])))
        request.topics[0].partitions[0].partition_index = 7
        refused = await client.share.ShareAcknowledge(request, timeout=TIMEOUT)
        assert codes(refused.responses[0].partitions) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def _session_acknowledge(
    harness: Harness, member: str, epoch: int, batches: list[share.AcknowledgementBatch]
) -> share.ShareAcknowledgeRequest:
    topic = share.ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=harness.topic_id)
    topic.partitions.add(partition_index=0, acknowledgement_batches=batches)
    return share.ShareAcknowledgeRequest(
        group_id=harness.group_id, member_id=member, share_session_epoch=epoch, topics=[topic]
    )


# Lock tokens


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT, RENEW])
async def test_foreign_and_invented_lock_tokens_are_rejected(client: Client, kind: int) -> None:
    async with undisturbed(client) as harness:
        first, second = harness.held[0], harness.held[1]
        swapped = share.ShareRecord()
        swapped.CopyFrom(first)
        swapped.lock_token = second.lock_token + 12_345
        refused = ErrorCode.INVALID_RECORD_STATE
        assert await client.acknowledge(harness.group_id, harness.member, [swapped], kind) == [refused]
        assert await client.acknowledge(harness.group_id, unique("thief"), [first], kind) == [refused]


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT, RENEW])
@pytest.mark.parametrize("meanwhile", ["held", "accepted"])
async def test_late_lock_token_is_rejected_for_any_holder(client: Client, kind: int, meanwhile: str) -> None:
    topic, topic_id = await client.create()
    group_id = await client.group()
    await client.publish(topic, ["a", "b"])
    late = await client.acquire_all(group_id, topic, 2, "slow")
    assert await client.acknowledge(group_id, "slow", late, RELEASE) == [0, 0]
    for member in ("slow", "quick"):  # the same member's new lock has another token
        current = await client.acquire_all(group_id, topic, 2, member)
        assert [record.delivery_count for record in current] == [2 if member == "slow" else 3] * 2
        assert await client.acknowledge(group_id, "slow", late, kind) == [ErrorCode.INVALID_RECORD_STATE] * 2
        if member == "slow":
            assert await client.acknowledge(group_id, "slow", current, RELEASE) == [0, 0]
    if meanwhile == "accepted":
        assert await client.acknowledge(group_id, "quick", current) == [0, 0]
    before = str(await client.inspect(group_id, topic_id))
    response = await client.share.Acknowledge(
        share.AcknowledgeRequest(
            group_id=group_id, member_id="slow", acknowledgements=[decision(record, kind) for record in late]
        ),
        timeout=TIMEOUT,
    )
    assert codes(response.results) == [ErrorCode.INVALID_RECORD_STATE] * 2
    assert str(await client.inspect(group_id, topic_id)) == before
    if meanwhile == "held":
        assert await client.acknowledge(group_id, "quick", current) == [0, 0]


# Record batches


def batch(value: bytes = b"value") -> bytearray:
    builder = BatchBuilder(CODECS["none"], 1 << 22)
    builder.append(1, None, value)
    builder.append(2, b"key", value)
    return bytearray(builder.build())


def changed(position: int, to: bytes) -> bytes:
    data = batch()
    position %= len(data)
    data[position : position + len(to)] = to
    return bytes(data)


BAD_RECORDS: Final[Mapping[str, tuple[bytes, ErrorCode]]] = {
    "wrong checksum": (changed(17, b"\0\0\0\0"), ErrorCode.CORRUPT_MESSAGE),
    "one bit of a value": (changed(-1, b"\x7f"), ErrorCode.CORRUPT_MESSAGE),
    "cut off": (bytes(batch()[:-3]), ErrorCode.CORRUPT_MESSAGE),
    "cut off in the header": (bytes(batch()[:30]), ErrorCode.CORRUPT_MESSAGE),
    "cut off after a good batch": (bytes(batch() + batch()[:-3]), ErrorCode.CORRUPT_MESSAGE),
    "too short a length": (changed(8, (10).to_bytes(4, "big")), ErrorCode.CORRUPT_MESSAGE),
    "no bytes": (b"", ErrorCode.INVALID_RECORD),
    "old magic": (changed(16, b"\x01"), ErrorCode.INVALID_RECORD),
    "rubbish": (
        b"no batch at all, but quite some bytes of text instead of one; no batch",
        ErrorCode.INVALID_RECORD,
    ),
    "too large": (bytes(batch(bytes(1_048_588))), ErrorCode.MESSAGE_TOO_LARGE),
}


async def test_invalid_record_batches_do_not_fail_valid_ones(client: Client) -> None:
    good_topic, _ = await client.create()
    async with undisturbed(client) as harness:
        refused = {}
        for number, (name, (data, _)) in enumerate(BAD_RECORDS.items()):
            request = produce.ProduceRequest()
            request.topic_data.add(topic_id=harness.topic_id).partition_data.add(index=0, records=data)
            request.topic_data.add(name=good_topic).partition_data.add(index=0, records=bytes(batch()))
            response = await client.produce.Produce(request, timeout=TIMEOUT)
            (bad,), (good,) = (topic.partition_responses for topic in response.responses)
            assert (good.error_code, good.base_offset) == (0, 2 * number), name
            assert bad.base_offset == -1, name
            (refused[name],) = codes([bad])
        assert refused == {name: code for name, (_, code) in BAD_RECORDS.items()}


async def test_batches_for_unknown_partitions_are_rejected(client: Client) -> None:
    async with undisturbed(client) as harness:
        request = produce.ProduceRequest()
        request.topic_data.add(topic_id=harness.topic_id).partition_data.add(index=1, records=bytes(batch()))
        request.topic_data.add(topic_id=UNKNOWN_ID).partition_data.add(index=0, records=bytes(batch()))
        request.topic_data.add(name="no spaces").partition_data.add(index=0, records=bytes(batch()))
        wrong = request.topic_data.add(topic_id=harness.topic_id, name="another")
        wrong.partition_data.add(index=0, records=bytes(batch()))
        response = await client.produce.Produce(request, timeout=TIMEOUT)
        assert codes(topic.partition_responses[0] for topic in response.responses) == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INCONSISTENT_TOPIC_ID,
        ]


# Topics and configs

BAD_TOPICS: Final[Mapping[str, tuple[dict[str, Any], ErrorCode]]] = {
    "no name": ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dots": ({"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a space": ({"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "not ASCII": ({"name": "naïve"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "250 characters": ({"name": "t" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    "less than no partitions": ({"name": unique("t"), "num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
    "too many partitions": ({"name": unique("t"), "num_partitions": 10_001}, ErrorCode.INVALID_PARTITIONS),
    "unknown setting": ({"name": unique("t"), "configs": {"no.such": "1"}}, ErrorCode.INVALID_CONFIG),
    "bad setting": ({"name": unique("t"), "configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
}


async def test_invalid_topics_do_not_fail_valid_ones(client: Client) -> None:
    async with undisturbed(client) as harness:
        request = cluster.CreateTopicsRequest()
        for fields, _ in BAD_TOPICS.values():
            request.topics.add(**fields)
        request.topics.add(name=harness.topic)
        good = unique("good")
        request.topics.add(name=good)
        response = await client.admin.CreateTopics(request, timeout=TIMEOUT)
        *refused, existing, made = codes(response.topics)
        assert dict(zip(BAD_TOPICS, refused, strict=True)) == {n: code for n, (_, code) in BAD_TOPICS.items()}
        assert (existing, made) == (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE)
        grow = cluster.CreatePartitionsRequest()
        grow.topics.add(name=harness.topic, count=1)
        grow.topics.add(name="nowhere", count=2)
        grown = await client.admin.CreatePartitions(grow, timeout=TIMEOUT)
        assert codes(grown.results) == [ErrorCode.INVALID_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        delete = cluster.DeleteTopicsRequest()
        delete.topics.add(name="nowhere")
        delete.topics.add(topic_id=UNKNOWN_ID)
        deleted = await client.admin.DeleteTopics(delete, timeout=TIMEOUT)
        assert codes(deleted.topics) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


BAD_SETTINGS: Final[Mapping[str, tuple[int, str, str]]] = {
    "unknown": (cluster.RESOURCE_TYPE_GROUP, "no.such.thing", "1"),
    "of another kind": (cluster.RESOURCE_TYPE_GROUP, "retention.ms", "1"),
    "no number": (cluster.RESOURCE_TYPE_GROUP, "share.delivery.count.limit", "many"),
    "out of bounds": (cluster.RESOURCE_TYPE_GROUP, "share.record.lock.duration.ms", "999999999"),
    "no choice": (cluster.RESOURCE_TYPE_GROUP, "share.auto.offset.reset", "middle"),
    "not to be changed": (cluster.RESOURCE_TYPE_BROKER, "group.share.max.record.lock.duration.ms", "40000"),
}


async def test_invalid_configs_are_rejected(client: Client) -> None:
    async with undisturbed(client) as harness:
        for name, (kind, key, value) in BAD_SETTINGS.items():
            request = cluster.IncrementalAlterConfigsRequest()
            resource = request.resources.add(
                resource_type=cluster.ResourceType.ValueType(kind),
                resource_name=harness.group_id if kind == cluster.RESOURCE_TYPE_GROUP else "",
            )
            resource.configs.add(name=key, value=value)
            response = await client.admin.IncrementalAlterConfigs(request, timeout=TIMEOUT)
            (code,) = codes(response.responses)
            assert code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST), name


# Groups in the wrong state


async def test_offsets_of_a_non_empty_group_cannot_change(client: Client) -> None:
    async with undisturbed(client) as harness:
        await client.heartbeat(harness.group_id, "present", 0, [harness.topic])
        assert (await rejection(_alter(harness))).code is ErrorCode.NON_EMPTY_GROUP
        forget = groups.DeleteShareGroupOffsetsRequest(group_id=harness.group_id, topic_names=[harness.topic])
        refused = await rejection(client.admin.DeleteShareGroupOffsets(forget, timeout=TIMEOUT))
        assert refused.code is ErrorCode.NON_EMPTY_GROUP
        delete = groups.DeleteGroupsRequest(group_ids=[harness.group_id, "absent"])
        assert codes((await client.admin.DeleteGroups(delete, timeout=TIMEOUT)).results) == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]
        await client.heartbeat(harness.group_id, "present", -1)


async def test_offsets_of_unknown_partitions_are_rejected(client: Client) -> None:
    async with undisturbed(client) as harness:
        response = await _alter(harness, ("nowhere", 0, 1), (harness.topic, 1, 1), (harness.topic, 0, -7))
        assert [codes(topic.partitions) for topic in response.responses] == [
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.INVALID_REQUEST],
        ]
        forget = groups.DeleteShareGroupOffsetsRequest(group_id=harness.group_id, topic_names=["nowhere"])
        forgotten = await client.admin.DeleteShareGroupOffsets(forget, timeout=TIMEOUT)
        assert codes(forgotten.responses) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        describe = groups.ShareGroupDescribeRequest(group_ids=["absent"])
        described = await client.admin.ShareGroupDescribe(describe, timeout=TIMEOUT)
        assert codes(described.groups) == [ErrorCode.GROUP_ID_NOT_FOUND]


async def _alter(harness: Harness, *offsets: tuple[str, int, int]) -> groups.AlterShareGroupOffsetsResponse:
    request = groups.AlterShareGroupOffsetsRequest(group_id=harness.group_id)
    for topic, partition, offset in offsets or ((harness.topic, 0, RECORDS),):
        request.topics.add(topic_name=topic).partitions.add(partition=partition, start_offset=offset)
    return await harness.client.admin.AlterShareGroupOffsets(request, timeout=TIMEOUT)
