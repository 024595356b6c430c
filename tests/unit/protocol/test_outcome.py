"""An outcome wakes tasks, threads and callbacks once it is known."""

from __future__ import annotations

import threading

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.outcome import Outcome

FAILED = KafkaError(ErrorCode.INVALID_RECORD_STATE)


def test_waiters_are_called_once() -> None:
    outcome, calls = Outcome(), list[str]()
    outcome.when_done(lambda: calls.append("before"))
    assert (outcome.done, calls) == (False, [])
    outcome.complete(None)
    outcome.when_done(lambda: calls.append("after"))
    assert (outcome.done, calls) == (True, ["before", "after"])


def test_failed_outcome_raises_its_error() -> None:
    outcome = Outcome()
    outcome.complete(FAILED)
    outcome.wait_blocking(None)
    with pytest.raises(KafkaError) as caught:
        outcome.raise_error()
    assert caught.value is FAILED


def test_blocking_wait_times_out() -> None:
    with pytest.raises(TimeoutError):
        Outcome().wait_blocking(0.01)


def test_thread_is_woken() -> None:
    outcome = Outcome()
    thread = threading.Timer(0.01, lambda: outcome.complete(None))
    thread.start()
    outcome.wait_blocking(10.0)
    thread.join()
    outcome.raise_error()
