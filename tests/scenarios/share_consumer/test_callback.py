"""The callback for outcomes of acknowledgements."""

from __future__ import annotations

import logging

import pytest

from libs.testkit.waiting import until
from sharebroker import AcknowledgementOutcome, ErrorCode, IllegalStateError, ShareConsumer, WakeupError
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, poll


def test_acknowledgement_commit_callback_successful_acknowledgement(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = world.consumer(world.new_group(), acknowledgement_commit_callback=told.append)
    world.produce(1)
    accept_all(poll(consumer))
    while not told:
        consumer.poll(0.1)
    assert [(outcome.topic, outcome.offsets, outcome.error) for outcome in told] == [
        (world.topic, range(1), None)
    ]


def test_acknowledgement_commit_callback_successful_acknowledgement_on_commit_sync(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = world.consumer(world.new_group(), acknowledgement_commit_callback=told.append)
    world.produce(1)
    accept_all(poll(consumer))
    consumer.commit()
    assert [outcome.error for outcome in told] == [None]


def test_acknowledgement_commit_callback_on_close(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = world.consumer(world.new_group(), acknowledgement_commit_callback=told.append)
    world.produce(1)
    accept_all(poll(consumer))
    consumer.close()
    assert [outcome.error for outcome in told] == [None]


def test_acknowledgement_commit_callback_invalid_record_state_exception(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = world.consumer(
        world.new_group(share_record_lock_duration_ms="1000"), acknowledgement_commit_callback=told.append
    )
    world.produce(1)
    (record,) = poll(consumer)
    until(lambda: record.lock_lost)
    record.accept()
    consumer.commit()
    (outcome,) = told
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INVALID_RECORD_STATE


def test_acknowledgement_commit_callback_calls_share_consumer_disallowed(world: World) -> None:
    refused: list[IllegalStateError] = []
    consumers: list[ShareConsumer] = []

    def call_back(_: AcknowledgementOutcome) -> None:
        with pytest.raises(IllegalStateError, match="callback") as caught:
            consumers[0].poll(0.1)
        refused.append(caught.value)

    consumers.append(world.consumer(world.new_group(), acknowledgement_commit_callback=call_back))
    world.produce(1)
    accept_all(poll(consumers[0]))
    consumers[0].commit()
    assert len(refused) == 1


def test_acknowledgement_commit_callback_calls_share_consumer_wakeup(world: World) -> None:
    consumers: list[ShareConsumer] = []
    consumers.append(
        world.consumer(world.new_group(), acknowledgement_commit_callback=lambda _: consumers[0].wakeup())
    )
    world.produce(1)
    accept_all(poll(consumers[0]))
    consumers[0].commit()
    with pytest.raises(WakeupError):
        consumers[0].poll(5.0)
    assert nothing_comes(consumers[0])


def test_acknowledgement_commit_callback_throws_exception(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: AcknowledgementOutcome) -> None:
        raise ArithmeticError("mine")

    consumer = world.consumer(world.new_group(), acknowledgement_commit_callback=fail)
    world.produce(1)
    accept_all(poll(consumer))
    with caplog.at_level(logging.ERROR, "sharebroker"):
        consumer.commit()
    assert "fail raised" in caplog.text
    assert nothing_comes(consumer)
