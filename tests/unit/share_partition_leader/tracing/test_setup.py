"""A leader traces only in a process that traces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharebroker_protocol import tracing
from sharebroker_server.share_partition_leader.tracing.record_spans import RecordSpans
from sharebroker_server.share_partition_leader.tracing.setup import leader_traces, record_spans
from tests.unit.share_partition_leader.tracing.spans import FinishedSpans


@pytest.fixture
def traced() -> Iterator[None]:
    tracing.turn(FinishedSpans().tracer)
    yield
    tracing.turn(None)


def test_without_tracing_there_is_no_observer() -> None:
    assert leader_traces() is None
    assert record_spans(None, "g") is None


@pytest.mark.usefixtures("traced")
def test_with_tracing_each_group_has_an_observer() -> None:
    traces = leader_traces()
    assert traces is not None
    assert isinstance(record_spans(traces.of("orders", 0, 0), "g"), RecordSpans)
