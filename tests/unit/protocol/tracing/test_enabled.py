"""The switch of tracing."""

from __future__ import annotations

import pytest

from sharebroker_protocol.tracing import enabled
from tests.unit.share_partition_leader.tracing.spans import FinishedSpans


def test_tracing_is_off_until_a_tracer_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enabled, "on", None)
    tracer = FinishedSpans().tracer
    enabled.turn(tracer)
    assert enabled.on is tracer
    enabled.turn(None)
    assert enabled.on is None
