"""Spans of published records."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol import tracing
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.produce.requests import refused
from tests.unit.protocol.tracing.test_tracer import Told


async def test_spans_of_a_cancelled_publish_end_with_an_error(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trace goes on where it is appended, below the span that made it."""
    reported = Told(1.0)
    monkeypatch.setattr(tracing, "on", reported.tracer)
    harness.leader.answer = lambda _: asyncio.Event().wait()
    some = [pb.PublishRecord(value=b"x", partition=index) for index in (0, 1)]
    call = harness.produce.Publish(pb.PublishRequest(topic="flights", records=some))
    waiting = asyncio.ensure_future(refused(call))
    await eventually(lambda: harness.leader.asked)
    waiting.cancel()
    await eventually(lambda: reported.spans["create flights"] == 2)
    assert reported.spans["send flights"] == 2
