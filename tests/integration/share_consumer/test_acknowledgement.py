"""Acknowledgement: explicit, implicit, commits and their results (ShareConsumerTest; see README.md)."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import (
    AcknowledgementOutcome,
    AcknowledgeType,
    ErrorCode,
    IllegalStateError,
    KafkaError,
    LockLost,
    Record,
    RecordDeserializationError,
)
from tests.integration.share_consumer.harness import Harness, accept_all, is_idle, offsets, poll, poll_records
from tests.testkit.waiting import eventually


async def test_explicit_acknowledge_success(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    accept_all(await poll(consumer))
    await harness.produce(1)
    assert offsets(await poll(consumer)) == [1]


async def test_explicit_acknowledge_commit_success(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    accept_all(await poll(consumer))
    await harness.produce(1)
    (result,) = await consumer.commit()
    assert (result.topic, result.partition, result.offset) == (harness.topic, 0, 0)
    assert (result.kind, result.error) == (AcknowledgeType.ACCEPT, None)
    assert await consumer.commit() == []
    assert offsets(await poll(consumer)) == [1]


async def test_each_record_has_its_own_confirmed_result(harness: Harness) -> None:
    await harness.produce(4)
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    records = await poll_records(consumer, 4)
    records[3].accept()
    records[1].reject("of no use")
    records[0].accept()
    results = await consumer.commit()
    assert {result.offset: result.kind for result in results} == {
        0: AcknowledgeType.ACCEPT,
        1: AcknowledgeType.REJECT,
        3: AcknowledgeType.ACCEPT,
    }
    assert [result.error for result in results] == [None] * 3
    await records[2].release()
    (again,) = await poll(consumer)
    assert (again.offset, again.delivery_count) == (2, 2)
    again.accept()
    assert [(result.offset, result.kind) for result in await consumer.commit()] == [
        (2, AcknowledgeType.RELEASE),
        (2, AcknowledgeType.ACCEPT),
    ]


async def test_commit_reports_late_acknowledgements(harness: Harness) -> None:
    """Half of the records that are accepted together was renewed in time; the locks of the other half timed
    out.
    """
    await harness.produce(4)
    lost: list[LockLost] = []
    group = await harness.new_group(share_record_lock_duration_ms=1000)
    consumer = await harness.consumer(group, lock_lost_callback=lost.append)
    records = await poll_records(consumer, 4)
    first = records[0].deadline
    await harness.configure(group, share_record_lock_duration_ms=30_000)
    while records[0].deadline < first + 15:  # the change reaches the leader after a moment
        records[0].renew()
        records[1].renew()
        await consumer.commit()
    await eventually(lambda: records[2].lock_lost and records[3].lock_lost)
    accept_all(records)
    results = {result.offset: result.error and result.error.code for result in await consumer.commit()}
    late = ErrorCode.INVALID_RECORD_STATE
    assert results == {0: None, 1: None, 2: late, 3: late}
    assert [(one.topic, one.offset, one.delivery_count) for one in lost] == [
        (harness.topic, 2, 1),
        (harness.topic, 3, 1),
    ]
    assert [(record.offset, record.delivery_count) for record in await poll(consumer)] == [(2, 2), (3, 2)]


async def test_explicit_acknowledgement_commit_async(harness: Harness) -> None:
    outcomes: list[AcknowledgementOutcome] = []
    group = await harness.new_group()
    await harness.produce(3)
    one = await harness.consumer(group, acknowledgement_commit_callback=outcomes.append)
    accept_all(await poll_records(one, 3))
    one.commit_async()
    while not outcomes:
        await one.poll(0.1)
    assert [(outcome.offsets, outcome.error) for outcome in outcomes] == [(range(3), None)]
    assert await is_idle(await harness.consumer(group))


async def test_explicit_acknowledgement_commit_async_partial_batch(harness: Harness) -> None:
    outcomes: list[int] = []
    consumer = await harness.consumer(
        acknowledgement_commit_callback=lambda outcome: outcomes.extend(outcome.offsets)
    )
    await harness.produce(3)
    records = await poll_records(consumer, 3)
    records[0].accept()
    records[1].accept()
    consumer.commit_async()
    with pytest.raises(IllegalStateError, match="1 records are not acknowledged"):
        await consumer.poll(0.1)
    records[2].accept()
    await harness.produce(1)
    accept_all(await poll_records(consumer, 1))
    await consumer.commit()
    assert sorted(outcomes) == [0, 1, 2, 3]


async def test_explicit_acknowledge_release_poll_accept(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    (record,) = await poll(consumer)
    record.release()
    (again,) = await poll(consumer)
    assert (again.offset, again.delivery_count) == (0, 2)
    again.accept()
    assert await is_idle(consumer)


async def test_explicit_acknowledge_release_accept(harness: Harness) -> None:
    """Both precede any request: the last acknowledgement applies."""
    await harness.produce(1)
    consumer = await harness.consumer()
    (record,) = await poll(consumer)
    first = record.release()
    assert record.accept() is first
    await first
    assert [result.kind for result in await consumer.commit()] == [AcknowledgeType.ACCEPT]
    assert await is_idle(consumer)


async def test_explicit_acknowledge_release_close(harness: Harness) -> None:
    await harness.produce(1)
    group = await harness.new_group()
    consumer = await harness.consumer(group, max_poll_records=1, prefetch_records=0)
    (record,) = await poll(consumer)
    record.release()
    await consumer.close()
    (again,) = await poll(await harness.consumer(group))
    assert again.delivery_count == 2


async def test_close_releases_unacknowledged_records_with_their_delivery_count(
    harness: Harness,
) -> None:
    """Since Kafka 4.2 a delivery that ends with the session counts."""
    await harness.produce(4)
    group = await harness.new_group()
    consumer = await harness.consumer(group, max_poll_records=4, prefetch_records=0)
    records = await poll_records(consumer, 4)
    accepted, rejected = records[0].accept(), records[1].reject()
    await consumer.close()
    await accepted
    await rejected
    with pytest.raises(KafkaError):
        await records[2].accept()
    again = await poll_records(await harness.consumer(group), 2)
    assert [(record.offset, record.delivery_count) for record in again] == [(2, 2), (3, 2)]


async def test_explicit_acknowledge_throws_not_in_batch(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    (record,) = await poll(consumer)
    record.accept()
    await consumer.commit()
    await harness.produce(1)
    await poll(consumer)
    with pytest.raises(IllegalStateError, match="already acknowledged"):
        record.accept()


def unable_to_read_2(record: Record) -> int:
    number = int(record.value or b"")
    if number == 2:
        raise ValueError("not that one")
    return number


async def test_explicit_override_acknowledge_corrupted_message(harness: Harness) -> None:
    await harness.produce(4)
    consumer = await harness.consumer(deserializer=unable_to_read_2)
    first = await poll(consumer)
    assert [record.data for record in first] == [0, 1]
    accept_all(first)
    for delivery in (1, 2):
        with pytest.raises(RecordDeserializationError) as caught:
            await poll(consumer)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == (harness.topic, 0, 2)
        if delivery == 1:  # the default is release, which fails again
            accept_all(await poll(consumer))
    await consumer.acknowledge(harness.topic, 0, 2, AcknowledgeType.REJECT)
    assert await is_idle(consumer)


async def test_explicit_acknowledge_offset_throws_not_exception(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    (record,) = await poll(consumer)
    with pytest.raises(IllegalStateError, match="failed to deserialise"):
        consumer.acknowledge(harness.topic, 0, record.offset, AcknowledgeType.ACCEPT)


async def test_explicit_acknowledge_offset_throws_parameters_error(harness: Harness) -> None:
    await harness.produce(3)
    consumer = await harness.consumer(deserializer=unable_to_read_2)
    accept_all(await poll(consumer))
    with pytest.raises(RecordDeserializationError):
        await poll(consumer)
    for wrong in ((harness.topic, 0, 1), (harness.topic, 1, 2), ("other", 0, 2)):
        with pytest.raises(IllegalStateError):
            consumer.acknowledge(*wrong, AcknowledgeType.REJECT)
    consumer.acknowledge(harness.topic, 0, 2, AcknowledgeType.REJECT)
    with pytest.raises(IllegalStateError):
        consumer.acknowledge(harness.topic, 0, 2, AcknowledgeType.REJECT)


async def test_implicit_acknowledge_fails_explicit(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer(share_acknowledgement_mode="implicit")
    (record,) = await poll(consumer)
    with pytest.raises(IllegalStateError, match="implicit"):
        record.accept()


async def test_implicit_acknowledge_by_the_next_poll_but_not_by_close(harness: Harness) -> None:
    group = await harness.new_group()
    await harness.produce(1)
    consumer = await harness.consumer(group, share_acknowledgement_mode="implicit")
    assert offsets(await poll(consumer)) == [0]
    await harness.produce(1)
    assert offsets(await poll(consumer)) == [1]
    await consumer.close()
    (record,) = await poll(await harness.consumer(group))
    assert (record.offset, record.delivery_count) == (1, 2)


async def test_implicit_acknowledge_commit_sync(harness: Harness) -> None:
    group = await harness.new_group()
    await harness.produce(1)
    consumer = await harness.consumer(group, share_acknowledgement_mode="implicit")
    await poll(consumer)
    assert [(result.offset, result.error) for result in await consumer.commit()] == [(0, None)]
    assert await consumer.commit() == []
    await consumer.close()
    assert await is_idle(await harness.consumer(group))


async def test_implicit_acknowledgement_commit_async(harness: Harness) -> None:
    outcomes: list[int] = []
    consumer = await harness.consumer(
        share_acknowledgement_mode="implicit",
        acknowledgement_commit_callback=lambda outcome: outcomes.extend(outcome.offsets),
    )
    await harness.produce(3)
    await poll_records(consumer, 3)
    consumer.commit_async()
    while not outcomes:
        assert await consumer.poll(0.1) == []
    assert outcomes == [0, 1, 2]


async def test_commit_sync_fails_for_deleted_topic(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    (record,) = await poll(consumer)
    await harness.admin.delete_topic(harness.topic)
    record.accept()
    (result,) = await consumer.commit()
    assert result.error is not None
    assert result.error.code in (
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD_STATE,  # where the end of the topic was detected before the commit
    )


async def test_acquisition_lock_timeout_on_consumer(harness: Harness) -> None:
    lost: list[LockLost] = []
    await harness.produce(1)
    consumer = await harness.consumer(
        await harness.new_group(share_record_lock_duration_ms=1000), lock_lost_callback=lost.append
    )
    (record,) = await poll(consumer)
    with pytest.raises(IllegalStateError, match="not acknowledged"):
        await consumer.poll(0.1)
    await eventually(lambda: record.lock_lost)
    late = record.accept()
    results = await consumer.commit()
    assert [result.error and result.error.code for result in results] == [ErrorCode.INVALID_RECORD_STATE]
    with pytest.raises(KafkaError):
        await late
    (again,) = await poll(consumer)
    assert [(one.topic, one.offset, one.delivery_count) for one in lost] == [(harness.topic, 0, 1)]
    assert (again.offset, again.delivery_count) == (0, 2)
    with pytest.raises(KafkaError) as caught:
        await record.accept()  # the old acquisition is not confused with the new one
    assert caught.value.code is ErrorCode.INVALID_RECORD_STATE
    await again.accept()


async def test_acknowledgement_sent_on_subscription_change(harness: Harness) -> None:
    other = await harness.new_topic()
    consumer = await harness.consumer(await harness.new_group(share_record_lock_duration_ms=15_000))
    assert consumer.acquisition_lock_timeout_ms is None
    await harness.produce(1)
    await harness.produce(1, other)
    (record,) = await poll(consumer)
    assert consumer.acquisition_lock_timeout_ms == 15_000
    await consumer.subscribe([other])
    accepted = record.accept()
    (second,) = await poll(consumer)
    assert second.topic == other
    second.accept()
    assert [(result.topic, result.error) for result in await consumer.commit()] == [
        (harness.topic, None),
        (other, None),
    ]
    await accepted
    await consumer.subscribe([harness.topic])
    assert await is_idle(consumer)


async def test_other_tasks_may_acknowledge(harness: Harness) -> None:
    """Other tasks may await the results of their records while the consumer's own task polls."""
    await harness.produce(50)
    group = await harness.new_group()
    consumer = await harness.consumer(group, max_poll_records=10)

    async def work(record: Record) -> int:
        await record.accept()
        return record.offset

    async with asyncio.timeout(30), asyncio.TaskGroup() as workers:
        tasks = []
        async for record in consumer:
            tasks.append(workers.create_task(work(record)))
            if len(tasks) == 50:
                break
    assert sorted(task.result() for task in tasks) == list(range(50))
    assert await harness.lag(group) == 0
