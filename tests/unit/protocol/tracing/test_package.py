"""The switch of tracing."""

from __future__ import annotations

import pytest

from sharebroker_protocol import tracing
from tests.unit.share_partition_leader.tracing.spans import FinishedSpans


def test_tracing_is_off_until_a_tracer_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "on", None)
    tracer = FinishedSpans().tracer
    tracing.turn(tracer)
    assert tracing.on is tracer
    tracing.turn(None)
    assert tracing.on is None
