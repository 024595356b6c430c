"""Acknowledgement: explicit, implicit, commits and what they report."""

from __future__ import annotations

import pytest

from libs.testkit.waiting import until
from sharebroker import (
    AcknowledgementOutcome,
    AcknowledgeType,
    ErrorCode,
    IllegalStateError,
    KafkaError,
    Record,
    RecordDeserializationError,
)
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, offsets, poll, take


def test_explicit_acknowledge_success(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    accept_all(poll(consumer))
    world.produce(1)
    assert offsets(poll(consumer)) == [1]


def test_explicit_acknowledge_commit_success(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    accept_all(poll(consumer))
    world.produce(1)
    (result,) = consumer.commit()
    assert (result.topic, result.partition, result.offset) == (world.topic, 0, 0)
    assert (result.kind, result.error) == (AcknowledgeType.ACCEPT, None)
    assert consumer.commit() == []
    assert offsets(poll(consumer)) == [1]


def test_each_record_has_its_own_confirmed_result(world: World) -> None:
    world.produce(3)
    consumer = world.consumer(world.new_group())
    for record in take(consumer, 3):
        record.accept().result(5)


def test_explicit_acknowledgement_commit_async(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    group = world.new_group()
    world.produce(3)
    one = world.consumer(group, acknowledgement_commit_callback=told.append)
    accept_all(take(one, 3))
    one.commit_async()
    one.commit()
    assert [offset for outcome in told for offset in outcome.offsets] == [0, 1, 2]
    assert nothing_comes(world.consumer(group))


def test_explicit_acknowledgement_commit_async_partial_batch(world: World) -> None:
    told: list[int] = []
    consumer = world.consumer(
        world.new_group(), acknowledgement_commit_callback=lambda outcome: told.extend(outcome.offsets)
    )
    world.produce(3)
    records = take(consumer, 3)
    records[0].accept()
    records[1].accept()
    consumer.commit()
    with pytest.raises(IllegalStateError, match="1 records are not acknowledged"):
        consumer.poll(0.1)
    records[2].accept()
    world.produce(1)
    accept_all(take(consumer, 1))
    consumer.commit()
    assert sorted(told) == [0, 1, 2, 3]


def test_explicit_acknowledge_release_poll_accept(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    (record,) = poll(consumer)
    record.release()
    (again,) = poll(consumer)
    assert (again.offset, again.delivery_count) == (0, 2)
    again.accept()
    assert nothing_comes(consumer)


def test_explicit_acknowledge_release_accept(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    (record,) = poll(consumer)
    # Both before anything can be sent: the later one wins. From another thread the first may be gone already.
    first = record.release()
    try:
        second = record.accept()
    except IllegalStateError:
        assert first.result(5) is None  # type: ignore[func-returns-value]  # that it does not raise is the point
        (record,) = poll(consumer)
        record.accept()
    else:
        assert second is first
    assert nothing_comes(consumer)


def test_explicit_acknowledge_release_close(world: World) -> None:
    world.produce(1)
    group = world.new_group()
    consumer = world.consumer(group, max_poll_records=1, prefetch_records=0)
    (record,) = poll(consumer)
    record.release()
    consumer.close()
    (again,) = poll(world.consumer(group))
    assert again.delivery_count == 2


def test_explicit_acknowledge_throws_not_in_batch(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    (record,) = poll(consumer)
    record.accept()
    consumer.commit()
    world.produce(1)
    poll(consumer)
    with pytest.raises(IllegalStateError, match="already acknowledged"):
        record.accept()


class Picky:
    """A deserialiser that cannot read the value 2."""

    def __call__(self, record: Record) -> int:
        number = int(record.value or b"")
        if number == 2:
            raise ValueError("not that one")
        return number


def test_explicit_override_acknowledge_corrupted_message(world: World) -> None:
    world.produce(4)
    consumer = world.consumer(world.new_group(), deserializer=Picky())
    first = poll(consumer)
    assert [record.data for record in first] == [0, 1]
    accept_all(first)
    for delivery in (1, 2):
        with pytest.raises(RecordDeserializationError) as caught:
            poll(consumer)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == (world.topic, 0, 2)
        if delivery == 1:  # by default it is released, and fails again
            accept_all(poll(consumer))
    consumer.acknowledge(world.topic, 0, 2, AcknowledgeType.REJECT).result(5)
    assert nothing_comes(consumer)


def test_explicit_acknowledge_offset_throws_not_exception(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    (record,) = poll(consumer)
    with pytest.raises(IllegalStateError, match="failed to deserialise"):
        consumer.acknowledge(world.topic, 0, record.offset, AcknowledgeType.ACCEPT)


def test_explicit_acknowledge_offset_throws_parameters_error(world: World) -> None:
    world.produce(3)
    consumer = world.consumer(world.new_group(), deserializer=Picky())
    accept_all(poll(consumer))
    with pytest.raises(RecordDeserializationError):
        poll(consumer)
    for wrong in ((world.topic, 0, 1), (world.topic, 1, 2), ("other", 0, 2)):
        with pytest.raises(IllegalStateError):
            consumer.acknowledge(*wrong, AcknowledgeType.REJECT)
    consumer.acknowledge(world.topic, 0, 2, AcknowledgeType.REJECT)
    with pytest.raises(IllegalStateError):
        consumer.acknowledge(world.topic, 0, 2, AcknowledgeType.REJECT)


def test_implicit_acknowledge_fails_explicit(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group(), share_acknowledgement_mode="implicit")
    (record,) = poll(consumer)
    with pytest.raises(IllegalStateError, match="implicit"):
        record.accept()


def test_implicit_acknowledge_on_next_poll(world: World) -> None:
    group = world.new_group()
    world.produce(1)
    consumer = world.consumer(group, share_acknowledgement_mode="implicit")
    assert offsets(poll(consumer)) == [0]
    world.produce(1)
    assert offsets(poll(consumer)) == [1]
    consumer.close()  # the last poll is not accepted by closing
    (record,) = poll(world.consumer(group))
    assert (record.offset, record.delivery_count) == (1, 2)


def test_implicit_acknowledge_commit_sync(world: World) -> None:
    group = world.new_group()
    world.produce(1)
    consumer = world.consumer(group, share_acknowledgement_mode="implicit")
    poll(consumer)
    assert [result.error for result in consumer.commit()] == [None]
    assert consumer.commit() == []
    assert nothing_comes(consumer)


def test_implicit_acknowledgement_commit_async(world: World) -> None:
    told: list[int] = []
    consumer = world.consumer(
        world.new_group(),
        share_acknowledgement_mode="implicit",
        acknowledgement_commit_callback=lambda outcome: told.extend(outcome.offsets),
    )
    world.produce(3)
    take(consumer, 3)
    consumer.commit_async()
    consumer.commit()
    assert told == [0, 1, 2]
    assert nothing_comes(consumer)


def test_commit_sync_fails_for_deleted_topic(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    (record,) = poll(consumer)
    world.admin.delete_topic(world.topic)
    record.accept()
    (result,) = consumer.commit()
    assert result.error is not None
    assert result.error.code in (
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD_STATE,
    )


def test_acquisition_lock_timeout_on_consumer(world: World) -> None:
    lost: list[object] = []
    world.produce(1)
    consumer = world.consumer(
        world.new_group(share_record_lock_duration_ms="1000"), lock_lost_callback=lost.append
    )
    (record,) = poll(consumer)
    with pytest.raises(IllegalStateError, match="not acknowledged"):
        consumer.poll(0.1)
    until(lambda: record.lock_lost)
    (again,) = poll(consumer)
    assert lost == [(world.topic, 0, range(1))]
    assert (again.offset, again.delivery_count) == (0, 2)
    with pytest.raises(KafkaError) as caught:
        record.accept().result(5)
    assert caught.value.code is ErrorCode.INVALID_RECORD_STATE
    again.accept().result(5)


def test_acknowledgement_sent_on_subscription_change(world: World) -> None:
    other = world.new_topic()
    group = world.new_group(share_record_lock_duration_ms="15000")
    consumer = world.consumer(group)
    assert consumer.acquisition_lock_timeout_ms in (None, 15_000)
    world.produce(1)
    world.produce(1, other)
    (record,) = poll(consumer)
    assert consumer.acquisition_lock_timeout_ms == 15_000
    consumer.subscribe([other])
    accepted = record.accept()
    (second,) = poll(consumer)
    assert second.topic == other
    second.accept()
    assert [result.error for result in consumer.commit()] == [None]
    accepted.result(5)
    consumer.subscribe([world.topic])
    assert nothing_comes(consumer)
