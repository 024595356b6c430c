"""Appends to led partitions."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.leader_calls.values import AppendCall, AppendPart
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import TOPIC, Harness


async def test_results_are_in_the_order_of_the_parts(harness: Harness) -> None:
    await harness.publish(2)
    parts = [AppendPart(TOPIC, 0, batch(1)), AppendPart(TOPIC, 7, batch(1)), AppendPart(TOPIC, 0, batch(2))]
    results = await harness.local.append(AppendCall(parts), 5.0)
    assert [(result.error_code, result.base_offset) for result in results] == [
        (ErrorCode.NONE, 2),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (ErrorCode.NONE, 3),
    ]


async def test_invalid_batch_fails_its_partition(harness: Harness) -> None:
    (result,) = await harness.local.append(AppendCall([AppendPart(TOPIC, 0, b"garbage")]), 5.0)
    assert result.error_code is ErrorCode.CORRUPT_MESSAGE


async def test_append_that_is_late_times_out(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(topic_id: str, partition: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(harness.leadership, "led", never)
    with pytest.raises(KafkaError) as failure:
        await harness.local.append(AppendCall([AppendPart(TOPIC, 0, batch(1))]), 0.5)
    assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT
