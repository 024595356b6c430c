"""Load failures: errors returned to callers, and the rate of log lines."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.coordinator_runtime.load_failures import DamagedLogError, LoadFailureReporter
from sharebroker_server.stream_log.port import LogUnavailable

Logs = list[MutableMapping[str, Any]]
DAMAGED = DamagedLogError(7, "is no record (no)")


def test_same_failure_is_logged_once_a_minute_with_one_traceback(logs: Logs) -> None:
    failures = LoadFailureReporter("share-coordinator:6")
    for second in range(130):
        failures.record(DAMAGED, 1000.0 + second)
    assert [entry["exc_info"] for entry in logs] == [True, False, False]
    failures.record(LogUnavailable("away"), 1131.0)
    failures.record(DAMAGED, 1132.0)
    assert [entry["exc_info"] for entry in logs[3:]] == [False, True]
    failures.clear()
    failures.record(DAMAGED, 1133.0)
    assert logs[-1]["exc_info"]


def test_callers_receive_the_failure_until_it_is_cleared() -> None:
    failures = LoadFailureReporter("share-coordinator:6")
    failures.record(DAMAGED, 0.0)
    rejected = failures.rejection(ShardState.FAILED)
    assert rejected.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert rejected.message.startswith(
        "share-coordinator:6: it cannot be loaded: the entry at position 7 of its log is no record (no). "
    )
    assert "position 7" in failures.rejection(ShardState.LOADING).message
    assert "position 7" not in failures.rejection(ShardState.CLOSED).message
    failures.record(LogUnavailable("away"), 1.0)
    assert failures.rejection(ShardState.FAILED).message == "share-coordinator:6: it cannot be loaded: away"
    failures.clear()
    assert failures.rejection(ShardState.FAILED).message.endswith(ShardState.FAILED.value)
