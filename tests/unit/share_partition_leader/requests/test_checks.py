"""Checks of requests to a leader."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquireMode
from sharebroker_server.share_partition_leader.requests.checks import (
    LONGEST_WAIT_MS,
    check_mode,
    wait_seconds,
)


@pytest.mark.parametrize(("milliseconds", "seconds"), [(0, 0.0), (1500, 1.5), (LONGEST_WAIT_MS, 60.0)])
def test_waits_are_in_seconds(milliseconds: int, seconds: float) -> None:
    assert wait_seconds(milliseconds) == seconds


@pytest.mark.parametrize("milliseconds", [-1, LONGEST_WAIT_MS + 1])
def test_waits_are_limited(milliseconds: int) -> None:
    with pytest.raises(KafkaError) as rejected:
        wait_seconds(milliseconds)
    assert rejected.value.code is ErrorCode.INVALID_REQUEST


def test_every_acquire_mode_is_accepted_and_no_other() -> None:
    for mode in AcquireMode:
        check_mode(mode)
    with pytest.raises(KafkaError) as rejected:
        check_mode(max(AcquireMode) + 1)
    assert rejected.value.code is ErrorCode.INVALID_REQUEST
