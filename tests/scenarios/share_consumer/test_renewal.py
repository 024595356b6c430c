"""Renewal of acquisition locks (KIP-1222)."""

from __future__ import annotations

import pytest

from libs.testkit.waiting import until
from sharebroker import AcknowledgementOutcome, AcknowledgeType, ErrorCode, IllegalStateError
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, offsets, poll, take


def counted(told: list[AcknowledgementOutcome]) -> int:
    assert all(outcome.error is None for outcome in told)
    return sum(len(outcome.offsets) for outcome in told)


def test_renew_acknowledgement_on_poll(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    world.produce(10)
    consumer = world.consumer(world.new_group(), acknowledgement_commit_callback=told.append)
    records = take(consumer, 10)
    accept_all(records[:5])
    for record in records[5:]:
        record.renew()
    again = poll(consumer)
    assert again == records[5:]
    accept_all(again)
    consumer.commit()
    assert counted(told) == 15
    assert sum(len(o.offsets) for o in told if o.kind is AcknowledgeType.RENEW) == 5


def test_renew_acknowledgement_on_commit_sync(world: World) -> None:
    world.produce(3)
    group = world.new_group(share_record_lock_duration_ms="15000")
    consumer = world.consumer(group)
    records = take(consumer, 3)
    deadline = records[0].deadline
    world.admin.alter_group_configs(group, {"share.record.lock.duration.ms": "25000"})
    for record in records:
        record.renew()
        assert [result.error for result in consumer.commit()] == [None]
    assert records[0].deadline > deadline
    again = poll(consumer)
    assert again == records
    accept_all(again)
    assert [result.kind for result in consumer.commit()] == [AcknowledgeType.ACCEPT] * 3
    assert nothing_comes(consumer)


def test_renew_acknowledgement_no_result_in_poll(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    world.produce(10)
    consumer = world.consumer(world.new_group(), acknowledgement_commit_callback=told.append)
    records = take(consumer, 10)
    accept_all(records[:5])
    for record in records[5:]:
        record.renew()
    world.produce(5)
    renewed = poll(consumer)
    assert offsets(renewed) == [5, 6, 7, 8, 9]
    accept_all(renewed)
    fresh = take(consumer, 5)
    assert offsets(fresh) == [10, 11, 12, 13, 14]
    accept_all(fresh)
    consumer.commit()
    assert counted(told) == 20


def test_renew_acknowledgement_invalid_state_record(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    (record,) = poll(consumer)
    record.reject()
    consumer.commit()
    with pytest.raises(IllegalStateError, match="already acknowledged"):
        record.renew()


def test_renew_acknowledgement_disabled(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group(share_renew_acknowledge_enable="false"))
    (record,) = poll(consumer)
    record.renew()
    (result,) = consumer.commit()
    assert result.error is not None
    assert result.error.code is ErrorCode.INVALID_RECORD_STATE


def test_automatic_renewal_outlasts_the_lock(world: World) -> None:
    world.produce(4)
    group = world.new_group(share_record_lock_duration_ms="1000")
    consumer = world.consumer(group, auto_renew=True)
    records = take(consumer, 4)
    records[1].accept()
    first = records[0].deadline
    until(lambda: records[0].deadline > first + 1.5)  # longer than one lock lasts
    for record in (records[0], *records[2:]):
        record.accept().result(5)
    assert nothing_comes(consumer)
