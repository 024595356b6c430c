from itertools import product

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.coordinator_runtime.lifecycle import (
    REJECTIONS,
    TRANSITIONS,
    IllegalTransitionError,
    ShardState,
    transition,
)
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings

STATES = (ShardState.INITIAL, ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED, ShardState.CLOSED)
ARROWS = {
    "INITIAL": "LOADING CLOSED",
    "LOADING": "ACTIVE FAILED CLOSED",
    "ACTIVE": "FAILED CLOSED",
    "FAILED": "LOADING CLOSED",
    "CLOSED": "",
}


@pytest.mark.parametrize(("current", "to"), list(product(STATES, STATES)))
def test_every_pair(current: ShardState, to: ShardState) -> None:
    if to.name in ARROWS[current.name].split():
        assert transition(current, to) is to
    else:
        with pytest.raises(IllegalTransitionError):
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
def test_backoff(failures: int, delay: float) -> None:
    assert RuntimeSettings().backoff(failures) == pytest.approx(delay)
