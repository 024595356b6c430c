"""The callback for outcomes of acknowledgements (ShareConsumerTest; see README.md)."""

from __future__ import annotations

import logging

import pytest

from sharebroker import AcknowledgementOutcome, ErrorCode, IllegalStateError, WakeupError
from sharebroker.aio import ShareConsumer
from tests.integration.share_consumer.harness import Harness, accept_all, is_idle, poll
from tests.testkit.waiting import eventually


async def test_acknowledgement_commit_callback_successful_acknowledgement(harness: Harness) -> None:
    outcomes: list[AcknowledgementOutcome] = []
    consumer = await harness.consumer(acknowledgement_commit_callback=outcomes.append)
    await harness.produce(1)
    accept_all(await poll(consumer))
    while not outcomes:
        await consumer.poll(0.1)
    assert [(outcome.topic, outcome.offsets, outcome.error) for outcome in outcomes] == [
        (harness.topic, range(1), None)
    ]


async def test_acknowledgement_commit_callback_success_on_commit_sync(
    harness: Harness,
) -> None:
    outcomes: list[AcknowledgementOutcome] = []
    consumer = await harness.consumer(acknowledgement_commit_callback=outcomes.append)
    await harness.produce(1)
    accept_all(await poll(consumer))
    await consumer.commit()
    assert [outcome.error for outcome in outcomes] == [None]


async def test_acknowledgement_commit_callback_on_close(harness: Harness) -> None:
    outcomes: list[AcknowledgementOutcome] = []
    consumer = await harness.consumer(acknowledgement_commit_callback=outcomes.append)
    await harness.produce(1)
    accept_all(await poll(consumer))
    await consumer.close()
    assert [outcome.error for outcome in outcomes] == [None]


async def test_acknowledgement_commit_callback_invalid_record_state_exception(harness: Harness) -> None:
    outcomes: list[AcknowledgementOutcome] = []
    consumer = await harness.consumer(
        await harness.new_group(share_record_lock_duration_ms=1000),
        acknowledgement_commit_callback=outcomes.append,
    )
    await harness.produce(1)
    (record,) = await poll(consumer)
    await eventually(lambda: record.lock_lost)
    record.accept()
    await consumer.commit()
    assert [outcome.error and outcome.error.code for outcome in outcomes] == [ErrorCode.INVALID_RECORD_STATE]


async def test_acknowledgement_commit_callback_calls_share_consumer_disallowed(harness: Harness) -> None:
    rejected: list[IllegalStateError] = []
    consumers: list[ShareConsumer] = []

    def call_back(_: AcknowledgementOutcome) -> None:
        with pytest.raises(IllegalStateError, match="callback") as caught:
            consumers[0].commit_async()
        rejected.append(caught.value)

    consumers.append(await harness.consumer(acknowledgement_commit_callback=call_back))
    await harness.produce(1)
    accept_all(await poll(consumers[0]))
    await consumers[0].commit()
    assert len(rejected) == 1


async def test_acknowledgement_commit_callback_calls_share_consumer_wakeup(harness: Harness) -> None:
    consumers: list[ShareConsumer] = []
    consumers.append(await harness.consumer(acknowledgement_commit_callback=lambda _: consumers[0].wakeup()))
    await harness.produce(1)
    accept_all(await poll(consumers[0]))
    await consumers[0].commit()
    with pytest.raises(WakeupError):
        await consumers[0].poll(5.0)
    assert await is_idle(consumers[0])


async def test_acknowledgement_commit_callback_throws_exception(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: AcknowledgementOutcome) -> None:
        raise ArithmeticError("mine")

    consumer = await harness.consumer(acknowledgement_commit_callback=fail)
    await harness.produce(1)
    accept_all(await poll(consumer))
    with caplog.at_level(logging.ERROR, "sharebroker"):
        await consumer.commit()
    assert "fail raised" in caplog.text
    assert await is_idle(consumer)
