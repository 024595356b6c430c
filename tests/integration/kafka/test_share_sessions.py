"""Share sessions on raw sockets: epochs, contents of responses, and every error (Kafka: KIP-932)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.schema import Message
from tests.integration.kafka.harness import Harness, Readable, acquire
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, answered, part, runs

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
LOCK_MS = 30_000
NOTHING = "C" * 21 + "A"

pytestmark = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture
async def at(harness: Harness) -> Readable:
    return await harness.readable()


@pytest.fixture
def member() -> str:
    return unique("member")


async def test_session_is_opened_fetched_and_closed(
    kafka: KafkaClient, at: Readable, member: str, version: int
) -> None:
    opened = await kafka.share_fetch(
        at.group, member, 0, {at.topic_id: [0]}, version=version, max_records=4, batch_size=4
    )
    assert (opened.error_code, opened.throttle_time_ms) == (0, 0)
    assert opened.acquisition_lock_timeout_ms == LOCK_MS
    data = answered(opened)[at.topic_id, 0]
    assert runs(data) == [(0, 3, 1)]
    assert b"record 3" in data.records
    assert opened.node_endpoints == []

    accepted = await kafka.share_acknowledge(
        at.group, member, 1, {(at.topic_id, 0): [(0, 3, ACCEPT)]}, version=version
    )
    assert (accepted.error_code, answered(accepted)[at.topic_id, 0].error_code) == (0, 0)
    assert accepted.acquisition_lock_timeout_ms == (LOCK_MS if version > 1 else 0)

    rest = await kafka.share_fetch(at.group, member, 2, version=version)
    assert runs(answered(rest)[at.topic_id, 0])[0][0] == 4
    both = await kafka.share_fetch(
        at.group, member, 3, acks={(at.topic_id, 0): [(4, 9, ACCEPT)]}, version=version, max_wait_ms=0
    )
    assert answered(both)[at.topic_id, 0].acknowledge_error_code == 0
    assert answered(both)[at.topic_id, 0].records == b""

    ended = await kafka.share_acknowledge(at.group, member, -1, version=version)
    assert (ended.error_code, ended.responses) == (0, [])
    gone = await kafka.share_fetch(at.group, member, 4, version=version)
    assert gone.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_final_fetch_acknowledges_and_releases_the_rest(
    kafka: KafkaClient, at: Readable, member: str, version: int
) -> None:
    assert await acquire(kafka, at, member) == [(0, 9, 1)]
    ended = await kafka.share_fetch(
        at.group, member, -1, acks={(at.topic_id, 0): [(0, 4, ACCEPT)]}, version=version
    )
    assert (ended.error_code, answered(ended)[at.topic_id, 0].acknowledge_error_code) == (0, 0)
    assert runs(answered(ended)[at.topic_id, 0]) == []
    again = await kafka.share_fetch(at.group, member, -1, version=version)
    assert again.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await acquire(kafka, at, unique("next")) == [(5, 9, 2)]


async def test_response_omits_unchanged_partitions(
    harness: Harness, kafka: KafkaClient, member: str, version: int
) -> None:
    at = await harness.readable(records=1, partitions=3)
    first = await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0, 1]}, version=version)
    assert set(answered(first)) == {(at.topic_id, 0), (at.topic_id, 1)}
    second = await kafka.share_fetch(at.group, member, 1, {at.topic_id: [2]}, version=version, max_wait_ms=0)
    assert set(answered(second)) == {(at.topic_id, 2)}
    third = await kafka.share_fetch(at.group, member, 2, version=version, max_wait_ms=0)
    assert third.responses == []


async def test_removed_partition_is_not_fetched(
    harness: Harness, kafka: KafkaClient, member: str, version: int
) -> None:
    at = await harness.readable(records=0, partitions=2)
    await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0, 1]}, version=version, max_wait_ms=0)
    forgotten = [part(78, "ForgottenTopic", topic_id=at.topic_id, partitions=[0])]
    await kafka.share_fetch(
        at.group, member, 1, version=version, max_wait_ms=0, forgotten_topics_data=forgotten
    )
    await harness.client.publish(at.topic, ["a"], partition=0)
    await harness.client.publish(at.topic, ["b"], partition=1)
    response = await kafka.share_fetch(at.group, member, 2, version=version, max_wait_ms=5000)
    assert set(answered(response)) == {(at.topic_id, 1)}


async def test_topic_may_be_repeated_in_a_request(
    harness: Harness, kafka: KafkaClient, member: str, version: int
) -> None:
    """librdkafka does not group the partitions it adds, and sends acknowledgements separately."""
    at = await harness.readable(records=6, partitions=2)
    await harness.client.publish(at.topic, ["b"], partition=1)

    def topic(index: int, *batches: tuple[int, int]) -> Message:
        acks = [
            part(78, "AcknowledgementBatch", first_offset=first, last_offset=last, acknowledge_types=ACCEPT)
            for first, last in batches
        ]
        partition = part(78, "FetchPartition", partition_index=index, acknowledgement_batches=acks)
        return part(78, "FetchTopic", topic_id=at.topic_id, partitions=[partition])

    first = await kafka.share_fetch(
        at.group, member, 0, version=version, topics=[topic(0), topic(1), topic(0)]
    )
    assert {index: runs(data) for (_, index), data in answered(first).items()} == {
        0: [(0, 5, 1)],
        1: [(0, 0, 1)],
    }
    assert len(first.responses) == 1
    second = await kafka.share_fetch(
        at.group, member, 1, version=version, max_wait_ms=0, topics=[topic(0, (0, 2)), topic(0, (3, 5))]
    )
    assert answered(second)[at.topic_id, 0].acknowledge_error_code == 0
    assert await harness.client.finished(at.group, at.topic_id) == set(range(6))


async def test_zero_records_and_bytes_return_at_once(
    harness: Harness, kafka: KafkaClient, member: str, version: int
) -> None:
    at = await harness.readable(records=1)
    nothing: list[dict[str, Any]] = [{"max_records": 0}, {"max_bytes": 0}]
    for epoch, sizes in enumerate(nothing):
        async with asyncio.timeout(30):
            response = await kafka.share_fetch(
                at.group, member, epoch, {at.topic_id: [0]}, version=version, max_wait_ms=60_000, **sizes
            )
        assert response.error_code == 0
        assert all(data.records == b"" and not runs(data) for data in answered(response).values())


# Epochs

SESSION_ERRORS: list[tuple[str, int, ErrorCode]] = [
    ("fetch", 2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ("fetch", 2**31 - 1, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ("acknowledge", 2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ("acknowledge", 0, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
]


@pytest.mark.parametrize(("how", "epoch", "code"), SESSION_ERRORS)
async def test_wrong_epoch_is_rejected_and_the_session_continues(
    kafka: KafkaClient, at: Readable, member: str, version: int, how: str, epoch: int, code: ErrorCode
) -> None:
    await acquire(kafka, at, member)
    ask: Any = kafka.share_fetch if how == "fetch" else kafka.share_acknowledge
    rejected = await ask(at.group, member, epoch, version=version)
    assert (rejected.error_code, rejected.acquisition_lock_timeout_ms) == (code, 0)
    assert rejected.responses == []
    assert rejected.error_message
    acks = {(at.topic_id, 0): [(0, 9, ACCEPT)]}
    assert (await kafka.share_acknowledge(at.group, member, 1, acks, version=version)).error_code == 0


@pytest.mark.parametrize("epoch", [1, 5, -1])
async def test_without_a_session_only_epoch_0_is_valid(
    kafka: KafkaClient, at: Readable, member: str, version: int, epoch: int
) -> None:
    acks = {(at.topic_id, 0): [(0, 0, ACCEPT)]}
    for response in (
        await kafka.share_fetch(at.group, member, epoch, acks=acks, version=version),
        await kafka.share_acknowledge(at.group, member, epoch, acks, version=version),
    ):
        assert response.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert (response.responses, response.acquisition_lock_timeout_ms) == ([], 0)


async def test_acknowledgements_cannot_open_a_session(
    kafka: KafkaClient, at: Readable, member: str, version: int
) -> None:
    acks = {(at.topic_id, 0): [(0, 0, ACCEPT)]}
    rejected = await kafka.share_fetch(at.group, member, 0, acks=acks, version=version)
    assert (rejected.error_code, rejected.acquisition_lock_timeout_ms) == (ErrorCode.INVALID_REQUEST, 0)
    rejected = await kafka.share_acknowledge(at.group, member, 0, acks, version=version)
    assert rejected.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert await acquire(kafka, at, member) == [(0, 9, 1)]


async def test_epoch_0_replaces_the_session_and_keeps_locks(
    kafka: KafkaClient, at: Readable, member: str, version: int
) -> None:
    await acquire(kafka, at, member)
    reopened = await kafka.share_fetch(
        at.group, member, 0, {at.topic_id: [0]}, version=version, max_wait_ms=0
    )
    assert runs(answered(reopened)[at.topic_id, 0]) == []
    acks = {(at.topic_id, 0): [(0, 9, ACCEPT)]}
    accepted = await kafka.share_acknowledge(at.group, member, 1, acks, version=version)
    assert answered(accepted)[at.topic_id, 0].error_code == 0


# Invalid members and groups

NAMES: list[tuple[str | None, str | None]] = [
    ("", "member"),
    (None, "member"),
    ("group", ""),
    ("group", None),
    ("group", "x" * 37),
]


@pytest.mark.parametrize(("group", "name"), NAMES)
async def test_empty_group_and_member_ids_are_rejected(
    kafka: KafkaClient, version: int, group: str | None, name: str | None
) -> None:
    ask: Any = kafka
    for response in (
        await ask.share_fetch(group, name, 0, version=version),
        await ask.share_acknowledge(group, name, 1, version=version),
    ):
        assert response.error_code == ErrorCode.INVALID_REQUEST


# Partitions


async def test_unknown_partitions_are_rejected_individually(
    kafka: KafkaClient, at: Readable, member: str, version: int
) -> None:
    opened = await kafka.share_fetch(
        at.group, member, 0, {at.topic_id: [0, 7], NOTHING: [0]}, version=version, max_wait_ms=0
    )
    parts = answered(opened)
    assert (opened.error_code, parts[at.topic_id, 0].error_code) == (0, 0)
    assert parts[at.topic_id, 7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert parts[NOTHING, 0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert all(data.records is not None for data in parts.values())
    acks = {(at.topic_id, 7): [(0, 0, ACCEPT)], (NOTHING, 0): [(0, 0, ACCEPT)]}
    response = await kafka.share_acknowledge(at.group, member, 1, acks, version=version)
    assert {place: data.error_code for place, data in answered(response).items()} == {
        (at.topic_id, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (NOTHING, 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }


# Acknowledgements: (batches of partition 0, code)

WRONG: list[tuple[list[tuple[int, int, list[int]]], ErrorCode]] = [
    ([(3, 2, ACCEPT)], ErrorCode.INVALID_REQUEST),
    ([(0, 4, ACCEPT), (3, 9, ACCEPT)], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [1, 1])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [5])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, [-1])], ErrorCode.INVALID_REQUEST),
    ([(0, 9, RENEW)], ErrorCode.INVALID_REQUEST),
    ([(0, 99, ACCEPT)], ErrorCode.INVALID_REQUEST),
    ([(0, 4, ACCEPT), (0, 4, ACCEPT)], ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("batches", "code"), WRONG)
async def test_invalid_acknowledgements_are_rejected_whole(
    kafka: KafkaClient,
    at: Readable,
    member: str,
    version: int,
    batches: list[tuple[int, int, list[int]]],
    code: ErrorCode,
) -> None:
    await acquire(kafka, at, member)
    acks = {(at.topic_id, 0): batches}
    by_itself = await kafka.share_acknowledge(at.group, member, 1, acks, version=version)
    assert answered(by_itself)[at.topic_id, 0].error_code == code
    with_fetch = await kafka.share_fetch(at.group, member, 2, acks=acks, version=version, max_wait_ms=0)
    data = answered(with_fetch)[at.topic_id, 0]
    assert (data.error_code, data.acknowledge_error_code) == (0, code)
    assert data.acknowledge_error_message
    right = {(at.topic_id, 0): [(0, 9, [1, 2, 3, 0, 1, 1, 1, 1, 1, 1])]}
    response = await kafka.share_acknowledge(at.group, member, 3, right, version=version)
    assert answered(response)[at.topic_id, 0].error_code == 0


async def test_records_of_another_member_cannot_be_acknowledged(
    kafka: KafkaClient, at: Readable, member: str, version: int
) -> None:
    await acquire(kafka, at, unique("holder"))
    await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, version=version, max_wait_ms=0)
    acks = {(at.topic_id, 0): [(0, 9, ACCEPT)]}
    response = await kafka.share_acknowledge(at.group, member, 1, acks, version=version)
    assert answered(response)[at.topic_id, 0].error_code == ErrorCode.INVALID_RECORD_STATE


async def test_only_released_records_are_redelivered(
    kafka: KafkaClient, at: Readable, member: str, version: int
) -> None:
    await acquire(kafka, at, member)
    acks = {(at.topic_id, 0): [(0, 3, RELEASE), (4, 9, REJECT)]}
    response = await kafka.share_fetch(at.group, member, 1, acks=acks, version=version, max_wait_ms=5000)
    data = answered(response)[at.topic_id, 0]
    assert (data.acknowledge_error_code, runs(data)) == (0, [(0, 3, 2)])
