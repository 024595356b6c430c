"""The states of a shard, and its load failures."""

from __future__ import annotations

from collections.abc import MutableMapping
from itertools import product
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.coordinator_runtime.lifecycle import (
    REJECTIONS,
    TRANSITIONS,
    DamagedLogError,
    IllegalShardStateError,
    LoadFailureReporter,
    ShardState,
    transition,
)
from sharebroker_server.coordinator_runtime.shard import RuntimeSettings
from sharebroker_server.stream_log.port import LogUnavailable
from tests.testkit.tables import each

STATES = (ShardState.INITIAL, ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED, ShardState.CLOSED)
ARROWS = {
    "INITIAL": "LOADING CLOSED",
    "LOADING": "ACTIVE FAILED CLOSED",
    "ACTIVE": "FAILED CLOSED",
    "FAILED": "LOADING CLOSED",
    "CLOSED": "",
}


@each("current, to", list(product(STATES, STATES)))
def test_every_pair_of_states_is_legal_or_raises(current: ShardState, to: ShardState) -> None:
    if to.name in ARROWS[current.name].split():
        assert transition(current, to) is to
    else:
        with pytest.raises(IllegalShardStateError):
            transition(current, to)


def test_the_table_is_complete() -> None:
    assert set(TRANSITIONS) == set(ShardState)


@pytest.mark.parametrize("state", STATES)
def test_every_rejection_is_retriable(state: ShardState) -> None:
    if state is ShardState.ACTIVE:
        assert state not in REJECTIONS
    else:
        assert REJECTIONS[state].retriable


def test_only_a_closed_shard_is_not_coordinator() -> None:
    assert [s for s, code in REJECTIONS.items() if code is ErrorCode.NOT_COORDINATOR] == [ShardState.CLOSED]


@pytest.mark.parametrize(
    ("failures", "delay"), [(0, 0), (1, 0), (2, 0.05), (3, 0.1), (4, 0.2), (6, 0.8), (7, 1.0), (10_000, 1.0)]
)
def test_backoff_doubles_up_to_its_maximum(failures: int, delay: float) -> None:
    assert RuntimeSettings().backoff(failures) == pytest.approx(delay)


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


def test_commands_raise_the_load_failure_until_a_load_succeeds() -> None:
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
