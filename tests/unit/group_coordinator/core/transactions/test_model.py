"""Legal transitions of a transaction, and producer ids."""

from __future__ import annotations

import pytest

from sharebroker_server.group_coordinator.core.transactions.model import (
    BLOCK,
    LAST_EPOCH,
    MOVES,
    IdAllocation,
    IdRange,
    IdsAssigned,
    IllegalTransactionStateError,
    ProducerIds,
    Transaction,
    TransactionState,
)
from tests.testkit.tables import each

S = TransactionState


def test_only_listed_transitions_are_legal() -> None:
    assert MOVES.keys() == set(S)
    with pytest.raises(IllegalTransactionStateError, match="EMPTY to PREPARE_COMMIT"):
        Transaction(1, 0, 1).moved(S.PREPARE_COMMIT, 0)


@each("state, to", [(state, to) for state in S for to in S if to in MOVES[state]])
def test_legal_transition_changes_state_and_time(state: S, to: S) -> None:
    moved = Transaction(1, 0, 1, state).moved(to, 7, producer_epoch=3)
    assert (moved.state, moved.updated_ms, moved.producer_epoch) == (to, 7, 3)


@each("state, to", [(state, to) for state in S for to in S if to not in MOVES[state]])
def test_illegal_transition_is_an_error(state: S, to: S) -> None:
    with pytest.raises(IllegalTransactionStateError, match=f"{state.name} to {to.name}"):
        Transaction(1, 0, 1, state).moved(to, 7)


@pytest.mark.parametrize(("epoch", "exhausted"), [(LAST_EPOCH - 1, False), (LAST_EPOCH, True)])
def test_last_epoch_exhausts_the_producer_id(epoch: int, exhausted: bool) -> None:
    assert Transaction(1, epoch, 1).exhausted is exhausted


def test_allocation_changes_nothing_until_it_is_accepted() -> None:
    ids = ProducerIds(3, 50)
    for _ in range(2):
        allocation = IdAllocation(ids)
        assert [allocation.new_id(), allocation.new_id()] == [3, 53]
        assert allocation.new_end == BLOCK
        assert allocation.soft == (IdsAssigned(IdRange(2, BLOCK)),)
    assert (ids.end, ids.remaining) == (0, IdRange(0, 0))


def test_allocation_without_ids_has_no_effect() -> None:
    allocation = IdAllocation(ProducerIds(0, 1))
    assert (allocation.new_end, allocation.soft) == (None, ())


def test_used_up_block_is_followed_by_a_new_one() -> None:
    ids = ProducerIds(0, 1)
    ids.end, ids.remaining = BLOCK, IdRange(BLOCK - 1, BLOCK)
    allocation = IdAllocation(ids)
    assert [allocation.new_id(), allocation.new_id()] == [BLOCK - 1, BLOCK]
    assert allocation.new_end == 2 * BLOCK
