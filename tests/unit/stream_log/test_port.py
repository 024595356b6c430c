"""Errors of logs and their meaning for the caller."""

from __future__ import annotations

import pytest

from sharebroker_server.stream_log.port import (
    LogError,
    LogFenced,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogRefused,
    LogUnavailable,
)


@pytest.mark.parametrize("error", [LogNotWritten, LogRefused, LogOutOfOrder])
def test_an_append_that_was_not_written_has_a_reason(error: type[LogNotWritten]) -> None:
    caught = error("the store is full")
    assert isinstance(caught, LogNotWritten)
    assert (caught.reason, str(caught)) == ("the store is full", "the store is full")


@pytest.mark.parametrize("error", [LogFenced, LogOutcomeUnknown, LogUnavailable])
def test_other_failures_have_unknown_outcome(error: type[LogError]) -> None:
    assert issubclass(error, LogError)
    assert not issubclass(error, LogNotWritten)
