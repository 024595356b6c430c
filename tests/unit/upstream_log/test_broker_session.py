"""A session with one broker: what it leaves out, and how it goes on after errors."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.upstream_log import broker_session
from sharebroker_server.upstream_log.broker_session import FIRST_PAUSE, LONGEST_PAUSE
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.upstream_log.harness import running


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, FIRST_PAUSE),
        (ErrorCode.FENCED_LEADER_EPOCH, FIRST_PAUSE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, LONGEST_PAUSE),
        (ErrorCode.CORRUPT_MESSAGE, LONGEST_PAUSE),
    ],
)
async def test_a_partition_with_an_error_pauses(error: ErrorCode, pause: float) -> None:
    async with running() as harness:
        log = await harness.open()
        paused: list[float] = []
        report = log.failed

        def failed(reason: object, seconds: float) -> None:
            paused.append(seconds)
            report(reason, 0)  # type: ignore[arg-type]

        log.failed = failed  # type: ignore[method-assign,assignment]
        harness.cluster.errors.append(error)
        harness.cluster.append(batch(2))
        await eventually(lambda: log.records_end_offset == 2)
        assert paused == [pause]


async def test_a_defect_does_not_end_the_session() -> None:
    async with running() as harness:
        log = await harness.open()
        fetched = log.fetched
        calls: list[object] = []

        async def failing(part: object, position: object) -> None:
            calls.append(part)
            if len(calls) == 1:
                raise ValueError("a defect")
            await fetched(part, position)  # type: ignore[arg-type]

        log.fetched = failing  # type: ignore[method-assign]
        with patch.object(broker_session, "LONGEST_PAUSE", 0.01):
            harness.cluster.append(batch(2))
            await eventually(lambda: log.records_end_offset == 2)
        assert len(calls) > 1
