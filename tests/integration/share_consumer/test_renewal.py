"""Renewal of acquisition locks (KIP-1222; ShareConsumerTest; see README.md)."""

from __future__ import annotations

import pytest

from sharebroker import AcknowledgementOutcome, AcknowledgeType, ErrorCode, IllegalStateError, Record
from tests.integration.share_consumer.harness import Harness, accept_all, is_idle, offsets, poll, poll_records
from tests.testkit.waiting import eventually


def counted(outcomes: list[AcknowledgementOutcome]) -> int:
    assert all(outcome.error is None for outcome in outcomes)
    return sum(len(outcome.offsets) for outcome in outcomes)


async def test_renew_acknowledgement_on_poll(harness: Harness) -> None:
    outcomes: list[AcknowledgementOutcome] = []
    await harness.produce(10)
    consumer = await harness.consumer(acknowledgement_commit_callback=outcomes.append)
    records = await poll_records(consumer, 10)
    accept_all(records[:5])
    for record in records[5:]:
        record.renew()
    again = await poll(consumer)
    assert again == records[5:]
    assert [record.delivery_count for record in again] == [1] * 5
    accept_all(again)
    await consumer.commit()
    assert counted(outcomes) == 15
    assert counted([outcome for outcome in outcomes if outcome.kind is AcknowledgeType.RENEW]) == 5


async def test_renew_acknowledgement_on_commit_sync(harness: Harness) -> None:
    await harness.produce(3)
    group = await harness.new_group(share_record_lock_duration_ms=15_000)
    consumer = await harness.consumer(group)
    records = await poll_records(consumer, 3)
    first = records[0].deadline
    await harness.configure(group, share_record_lock_duration_ms=25_000)

    async def renew(record: Record) -> None:
        record.renew()
        (result,) = await consumer.commit()
        assert (result.offset, result.kind, result.error) == (record.offset, AcknowledgeType.RENEW, None)

    for record in records:
        await renew(record)
    while records[0].deadline < first + 9:  # the change reaches the leader after a moment
        await renew(records[0])
    again = await poll(consumer)
    assert again == records
    accept_all(again)
    assert [result.kind for result in await consumer.commit()] == [AcknowledgeType.ACCEPT] * 3
    assert await is_idle(consumer)


async def test_renew_acknowledgement_no_result_in_poll(harness: Harness) -> None:
    """While renewed records are outstanding, new ones wait."""
    outcomes: list[AcknowledgementOutcome] = []
    await harness.produce(10)
    consumer = await harness.consumer(acknowledgement_commit_callback=outcomes.append)
    records = await poll_records(consumer, 10)
    accept_all(records[:5])
    for record in records[5:]:
        record.renew()
    await harness.produce(5)
    renewed = await poll(consumer)
    assert offsets(renewed) == [5, 6, 7, 8, 9]
    accept_all(renewed)
    fresh = await poll_records(consumer, 5)
    assert offsets(fresh) == [10, 11, 12, 13, 14]
    accept_all(fresh)
    await consumer.commit()
    assert counted(outcomes) == 20


async def test_renew_acknowledgement_invalid_state_record(harness: Harness) -> None:
    outcomes: list[AcknowledgementOutcome] = []
    await harness.produce(1)
    consumer = await harness.consumer(acknowledgement_commit_callback=outcomes.append)
    (record,) = await poll(consumer)
    record.reject()
    await consumer.commit()
    with pytest.raises(IllegalStateError, match="already acknowledged"):
        record.renew()
    assert [outcome.kind for outcome in outcomes] == [AcknowledgeType.REJECT]


async def test_renew_acknowledgement_disabled(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer(await harness.new_group(share_renew_acknowledge_enable="false"))
    (record,) = await poll(consumer)
    record.renew()
    (result,) = await consumer.commit()
    assert result.error is not None
    assert result.error.code is ErrorCode.INVALID_RECORD_STATE
    await record.accept()


async def test_automatic_renewal_outlasts_the_lock(harness: Harness) -> None:
    await harness.produce(4)
    consumer = await harness.consumer(
        await harness.new_group(share_record_lock_duration_ms=1000), auto_renew=True
    )
    records = await poll_records(consumer, 4)
    records[1].accept()
    first = records[0].deadline
    await eventually(lambda: records[0].deadline > first + 1.5)  # longer than one lock lasts
    for record in (records[0], *records[2:]):
        await record.accept()
    assert await is_idle(consumer)
