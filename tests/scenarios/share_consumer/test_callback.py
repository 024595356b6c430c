"""The callback for outcomes of acknowledgements (ShareConsumerTest; see README.md)."""

from __future__ import annotations

import logging

import pytest

from sharebroker import AcknowledgementOutcome, ErrorCode, IllegalStateError, WakeupError
from sharebroker.aio import ShareConsumer
from sharebroker_server.testkit.waiting import eventually
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, poll


async def test_acknowledgement_commit_callback_successful_acknowledgement(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = await world.consumer(acknowledgement_commit_callback=told.append)
    await world.produce(1)
    accept_all(await poll(consumer))
    while not told:
        await consumer.poll(0.1)
    assert [(outcome.topic, outcome.offsets, outcome.error) for outcome in told] == [
        (world.topic, range(1), None)
    ]


async def test_acknowledgement_commit_callback_successful_acknowledgement_on_commit_sync(
    world: World,
) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = await world.consumer(acknowledgement_commit_callback=told.append)
    await world.produce(1)
    accept_all(await poll(consumer))
    await consumer.commit()
    assert [outcome.error for outcome in told] == [None]


async def test_acknowledgement_commit_callback_on_close(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = await world.consumer(acknowledgement_commit_callback=told.append)
    await world.produce(1)
    accept_all(await poll(consumer))
    await consumer.close()
    assert [outcome.error for outcome in told] == [None]


async def test_acknowledgement_commit_callback_invalid_record_state_exception(world: World) -> None:
    told: list[AcknowledgementOutcome] = []
    consumer = await world.consumer(
        await world.new_group(share_record_lock_duration_ms=1000),
        acknowledgement_commit_callback=told.append,
    )
    await world.produce(1)
    (record,) = await poll(consumer)
    await eventually(lambda: record.lock_lost)
    record.accept()
    await consumer.commit()
    assert [outcome.error and outcome.error.code for outcome in told] == [ErrorCode.INVALID_RECORD_STATE]


async def test_acknowledgement_commit_callback_calls_share_consumer_disallowed(world: World) -> None:
    refused: list[IllegalStateError] = []
    consumers: list[ShareConsumer] = []

    def call_back(_: AcknowledgementOutcome) -> None:
        with pytest.raises(IllegalStateError, match="callback") as caught:
            consumers[0].commit_async()
        refused.append(caught.value)

    consumers.append(await world.consumer(acknowledgement_commit_callback=call_back))
    await world.produce(1)
    accept_all(await poll(consumers[0]))
    await consumers[0].commit()
    assert len(refused) == 1


async def test_acknowledgement_commit_callback_calls_share_consumer_wakeup(world: World) -> None:
    consumers: list[ShareConsumer] = []
    consumers.append(await world.consumer(acknowledgement_commit_callback=lambda _: consumers[0].wakeup()))
    await world.produce(1)
    accept_all(await poll(consumers[0]))
    await consumers[0].commit()
    with pytest.raises(WakeupError):
        await consumers[0].poll(5.0)
    assert await nothing_comes(consumers[0])


async def test_acknowledgement_commit_callback_throws_exception(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: AcknowledgementOutcome) -> None:
        raise ArithmeticError("mine")

    consumer = await world.consumer(acknowledgement_commit_callback=fail)
    await world.produce(1)
    accept_all(await poll(consumer))
    with caplog.at_level(logging.ERROR, "sharebroker"):
        await consumer.commit()
    assert "fail raised" in caplog.text
    assert await nothing_comes(consumer)
