"""One portion of letters, and its request."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.dead_letters.counts import LetterCounts
from sharebroker_server.share_partition_leader.dead_letters.sending import (
    LetterPortion,
    LetterSender,
    failed_records,
)
from sharebroker_server.share_partition_leader.dead_letters.target import DeadLetterTopic
from tests.unit.share_partition_leader.dead_letters.test_mover import LetterFixture, failed
from tests.unit.share_partition_leader.harness import Harness

TOPIC = DeadLetterTopic("D" * 22, 2, True, 5_000)


def sender(fixture: LetterFixture, router: object) -> LetterSender:
    return LetterSender(cast("Any", router), fixture.counts)


def test_runs_become_records() -> None:
    (first, second, third) = failed_records([failed(3, 4), failed(9, 9)], {("g", "m1"): "c1"}, "g")
    assert (first.offset, second.offset, third.offset) == (3, 4, 9)
    assert (first.delivery_count, first.reason, first.member_id, first.client_id) == (2, "bad", "m1", "c1")
    (other,) = failed_records([failed(3, 3)], {("g", "m1"): "c1"}, "another")
    assert other.client_id == ""


async def test_a_portion_ends_at_the_limit_of_the_topic(harness: Harness) -> None:
    fixture = LetterFixture(harness)
    await harness.publish(50, size=100)
    partition = await fixture.source(failed(0, 49))
    records = list(failed_records(partition.core.runs, {}, "g"))
    portion = await sender(fixture, None).portion(partition, records, TOPIC, copy=True, decode=False)
    assert 0 < len(portion.offsets) < 50
    assert portion.completed == portion.offsets == list(range(len(portion.offsets)))
    assert len(portion.records) <= 5_000


async def test_deleted_records_get_letters_without_a_copy(harness: Harness) -> None:
    fixture = LetterFixture(harness)
    await harness.publish(2)
    partition = await fixture.source(failed(0, 0))
    await partition.log.delete_records(1)
    records = list(failed_records(partition.core.runs, {}, "g"))
    portion = await sender(fixture, None).portion(partition, records, TOPIC, copy=True, decode=False)
    assert portion.completed == [0]
    assert b"__dlq.errors.copy\x08gone" in portion.records


class Unreachable:
    """A router that finds no leader."""

    async def leader(self, topic_id: str, partition: int) -> None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "none")


async def test_a_request_without_leader_counts_as_failed(harness: Harness) -> None:
    fixture = LetterFixture(harness)
    fixture.counts = LetterCounts(lambda: 9)
    partition = await fixture.source(failed(0, 0))
    with pytest.raises(KafkaError):
        await sender(fixture, Unreachable()).send(partition, LetterPortion([0], [0], b"x"), TOPIC, 0)
    assert fixture.samples("dead_letter_append_failures_total") == {"": 1}
