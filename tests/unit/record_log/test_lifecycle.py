"""The phases of a leader's log, and the errors of operations that they do not permit."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.record_log.lifecycle import (
    RETRY_AFTER,
    TRANSITIONS,
    LogPhase,
    storage_error,
    unavailable,
)


def test_every_phase_has_transitions_and_closed_is_final() -> None:
    assert set(TRANSITIONS) == set(LogPhase)
    assert not TRANSITIONS[LogPhase.CLOSED]


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (LogPhase.RECOVERING, ErrorCode.KAFKA_STORAGE_ERROR),
        (LogPhase.CLOSED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_error_names_the_reason_of_the_phase(phase: LogPhase, code: ErrorCode) -> None:
    assert unavailable("partition:T:0", phase).code is code


def test_storage_error_can_be_retried() -> None:
    error = storage_error("full")
    assert error.retriable
    assert error.retry_after == RETRY_AFTER
