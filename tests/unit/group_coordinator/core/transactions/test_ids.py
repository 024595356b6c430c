"""Assignment of producer ids."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.transactions.ids import (
    BLOCK,
    IdAllocation,
    IdRange,
    IdsAssigned,
    ProducerIds,
)


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
