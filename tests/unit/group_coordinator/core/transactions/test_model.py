"""Legal transitions of a transaction."""

from __future__ import annotations

import pytest

from sharebroker_server.group_coordinator.core.transactions.model import (
    LAST_EPOCH,
    MOVES,
    IllegalTransitionError,
    Transaction,
    TransactionState,
)

S = TransactionState


def test_no_transition_beside_the_table() -> None:
    assert MOVES.keys() == set(S)
    with pytest.raises(IllegalTransitionError, match="EMPTY to PREPARE_COMMIT"):
        Transaction(1, 0, 1).moved(S.PREPARE_COMMIT, 0)


@pytest.mark.parametrize(("state", "to"), [(state, to) for state in S for to in S if to in MOVES[state]])
def test_legal_transition_changes_state_and_time(state: S, to: S) -> None:
    moved = Transaction(1, 0, 1, state).moved(to, 7, producer_epoch=3)
    assert (moved.state, moved.updated_ms, moved.producer_epoch) == (to, 7, 3)


@pytest.mark.parametrize(("state", "to"), [(state, to) for state in S for to in S if to not in MOVES[state]])
def test_illegal_transition_is_an_error(state: S, to: S) -> None:
    with pytest.raises(IllegalTransitionError, match=f"{state.name} to {to.name}"):
        Transaction(1, 0, 1, state).moved(to, 7)


@pytest.mark.parametrize(("epoch", "exhausted"), [(LAST_EPOCH - 1, False), (LAST_EPOCH, True)])
def test_last_epoch_exhausts_the_producer_id(epoch: int, exhausted: bool) -> None:
    assert Transaction(1, epoch, 1).exhausted is exhausted
