"""What a shard's trouble is told as, and how often."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.load_failures import DamagedLogError, Trouble
from sharebroker_server.stream_log.port import LogUnavailable

DAMAGED = DamagedLogError(7, "is no record (no)")


def test_the_same_reason_is_logged_once_a_minute_and_traced_once(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("share-coordinator:6")
    for second in range(130):
        trouble.met(DAMAGED, 1000.0 + second)
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]
    trouble.met(LogUnavailable("away"), 1131.0)
    trouble.met(DAMAGED, 1132.0)
    assert [bool(record.exc_info) for record in caplog.records[3:]] == [False, True]
    trouble.over()
    trouble.met(DAMAGED, 1133.0)
    assert caplog.records[-1].exc_info


def test_callers_are_told_why_while_it_lasts() -> None:
    trouble = Trouble("share-coordinator:6")
    trouble.met(DAMAGED, 0.0)
    refused = trouble.refusal(ShardState.FAILED)
    assert refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused.message.startswith(
        "share-coordinator:6: it cannot be loaded: the entry at position 7 of its log is no record (no). "
    )
    assert "position 7" in trouble.refusal(ShardState.LOADING).message
    assert "position 7" not in trouble.refusal(ShardState.CLOSED).message
    trouble.met(LogUnavailable("away"), 1.0)
    assert trouble.refusal(ShardState.FAILED).message == "share-coordinator:6: it cannot be loaded: away"
    trouble.over()
    assert trouble.refusal(ShardState.FAILED).message.endswith(ShardState.FAILED.value)
