"""What the handlers of a gateway share."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC


async def test_unknown_topic_is_an_error_that_names_it(harness: Harness) -> None:
    assert harness.gateway.topic(TOPIC.name) == TOPIC
    with pytest.raises(KafkaError) as failure:
        harness.gateway.topic("absent", "field")
    assert failure.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert failure.value.metadata == {"topic": "absent", "field": "field"}


@pytest.mark.parametrize(
    ("topic_id", "partition", "code"),
    [
        (TOPIC.topic_id, 1, ErrorCode.NONE),
        (TOPIC.topic_id, 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC.topic_id, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("absent", 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
async def test_partition_error(harness: Harness, topic_id: str, partition: int, code: ErrorCode) -> None:
    assert harness.gateway.partition_error(topic_id, partition) is code


async def test_stop_fails_the_streams_and_waits_for_their_end(harness: Harness) -> None:
    failures: list[BaseException] = []
    ended = asyncio.Event()

    async def stream() -> None:
        with harness.gateway.serving(failures.append):
            await ended.wait()

    serving = asyncio.ensure_future(stream())
    await eventually(lambda: harness.gateway.streams == 1)
    stopping = asyncio.ensure_future(harness.gateway.stop())
    await eventually(lambda: failures)
    assert not stopping.done()
    ended.set()
    await stopping
    await serving
    assert harness.gateway.streams == 0
    (failure,) = failures
    assert isinstance(failure, KafkaError)
    assert failure.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_stop_waits_for_background_work_that_fails(harness: Harness) -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("work")
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    harness.gateway.background(work(), "work failed")
    await harness.gateway.stop()
    assert done == ["work"]
