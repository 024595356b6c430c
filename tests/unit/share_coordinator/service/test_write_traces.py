"""Spans of state writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.share_coordinator.core.commands import Write
from sharebroker_server.share_coordinator.service.write_traces import trace_write

WRITE = Write(SharePartitionKey("g", "A" * 21 + "Q", 3), 1, 2, 7, 0, ())


class FakeTracer:
    def __init__(self, *, sampled: bool) -> None:
        self.sampled = sampled
        self.started: list[dict[str, Any]] = []
        self.ended: list[KafkaError | None] = []

    def current(self) -> object | None:
        return object() if self.sampled else None

    def inner(self, name: str, parent: object, attributes: dict[str, Any]) -> object:
        self.started.append(attributes)
        return name

    def end(self, span: object, error: KafkaError | None) -> None:
        self.ended.append(error)


async def test_write_outside_of_a_trace_has_no_span() -> None:
    tracer: Any = FakeTracer(sampled=False)
    trace_write(tracer, asyncio.get_running_loop().create_future(), WRITE)
    assert not tracer.started


@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.FENCED_LEADER_EPOCH)])
async def test_span_of_a_write_ends_with_the_append(error: KafkaError | None) -> None:
    tracer: Any = FakeTracer(sampled=True)
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    trace_write(tracer, written, WRITE)
    assert tracer.started[0]["messaging.sharebroker.leader_epoch"] == 2
    assert not tracer.ended
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
    await asyncio.sleep(0)
    assert tracer.ended == [error]
