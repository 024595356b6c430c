"""One consumer's credit over several leaders."""

from __future__ import annotations

import pytest

from sharebroker_server.gateway.core.credit import CreditSplit


def split(**left: int) -> CreditSplit[str]:
    """Returns a split with this remaining credit per leader and no recent deliveries."""
    credit: CreditSplit[str] = CreditSplit()
    for leader, records in left.items():
        credit.add(leader)
        credit.delivered(leader, -records)
    credit.rebalance()
    return credit


def test_credit_waits_for_a_leader() -> None:
    credit: CreditSplit[str] = CreditSplit()
    assert credit.grant(10) == []
    assert credit.pool == credit.outstanding == 10
    assert credit.add("a") == [("a", 10)]
    assert (credit.pool, credit.of("a"), credit.outstanding) == (0, 10, 10)
    credit.delivered("a", 4)
    assert credit.outstanding == 6


def test_single_leader_gets_all_credit() -> None:
    credit = split(a=3)
    assert credit.grant(7) == [("a", 7)]


# Remaining credit of the leaders, new credit, credit granted to each.
SHARES = [
    ({"a": 0, "b": 0}, 10, {"a": 5, "b": 5}),
    ({"a": 0, "b": 0, "c": 0}, 10, {"a": 4, "b": 3, "c": 3}),
    ({"a": 0, "b": 0}, 1, {"a": 1}),
    ({"a": 0, "b": 100}, 10, {"a": 10}),
    ({"a": 0, "b": 4, "c": 100}, 10, {"a": 7, "b": 3}),
    ({"a": -5, "b": 0}, 5, {"a": 5}),
    ({"a": -5, "b": 0}, 10, {"a": 8, "b": 2}),
]


@pytest.mark.parametrize(("left", "records", "given"), SHARES)
def test_new_credit_evens_out_the_lowest_leaders(
    left: dict[str, int], records: int, given: dict[str, int]
) -> None:
    assert dict(split(**left).grant(records)) == given


# Remaining credit of the leaders, credit withdrawn, loss of each; the rest is in flight.
BACK = [
    ({"a": 10}, 4, {"a": -4}, 0),
    ({"a": 2, "b": 8}, 5, {"b": -5}, 0),
    ({"a": 3, "b": 4, "c": -1}, 7, {"a": -3, "b": -4}, 0),
    ({"a": 3}, 5, {"a": -3}, -2),
    ({}, 5, {}, -5),
]


@pytest.mark.parametrize(("left", "records", "taken", "pool"), BACK)
def test_credit_is_withdrawn_from_the_highest_leaders(
    left: dict[str, int], records: int, taken: dict[str, int], pool: int
) -> None:
    credit = split(**left)
    assert dict(credit.grant(-records)) == taken
    assert credit.pool == pool


def test_used_credit_is_subtracted_from_the_next_grant() -> None:
    credit = split(a=5)
    assert credit.grant(-5) == [("a", -5)]
    credit.delivered("a", 3)  # was in flight
    assert credit.of("a") == -3
    assert credit.grant(10) == [("a", 10)]
    assert credit.of("a") == 7


def test_joining_leader_gets_no_credit_before_new_credit_arrives() -> None:
    credit = split(a=10)
    assert credit.add("b") == []
    assert credit.grant(4) == [("b", 4)]


def test_credit_of_a_removed_leader_goes_to_the_remaining_ones() -> None:
    credit = split(a=6, b=2)
    assert credit.remove("a") == [("b", 6)]
    assert credit.of("a") == 0
    assert credit.remove("b") == []
    assert credit.pool == 8


def test_parking_withdraws_credit() -> None:
    credit = split(a=6, b=2)
    assert dict(credit.park("a")) == {"a": -6, "b": 6}
    assert credit.park("a") == []


def test_deliveries_of_a_parked_leader_are_subtracted_at_its_resume() -> None:
    credit = split(a=6, b=2)
    credit.park("a")
    credit.delivered("a", 4)  # was in flight
    assert credit.pool == -4
    assert credit.grant(4) == []
    assert credit.add("a") == [("a", 4)]  # its own count is -4
    assert credit.of("a") == 0


def test_removed_leader_gets_no_credit() -> None:
    credit = split(a=1)
    credit.park("a")
    credit.delivered("a", 1)
    assert credit.remove("a") == []
    assert credit.add("a") == []


def test_single_credit_rotates_over_leaders() -> None:
    credit = split(a=1, b=0, c=0)
    holders = []
    for _ in range(6):
        moves = dict(credit.rebalance())
        (taken,) = [leader for leader, change in moves.items() if change < 0]
        (given,) = [leader for leader, change in moves.items() if change > 0]
        holders.append((taken, given))
    assert holders == [("a", "b"), ("b", "c"), ("c", "a")] * 2


@pytest.mark.parametrize("left", [{"a": 1, "b": 1}, {"a": 0, "b": 0}, {}])
def test_credit_does_not_move_unless_idle_and_needed(left: dict[str, int]) -> None:
    assert split(**left).rebalance() == []


def test_busy_leader_keeps_its_credit() -> None:
    credit = split(a=5, b=0)
    credit.delivered("a", 1)
    assert credit.rebalance() == []
    assert dict(credit.rebalance()) == {"a": -2, "b": 2}


def test_withdrawal_and_grant_to_one_leader_are_netted() -> None:
    credit = split(a=9, b=0, c=1)
    assert sum(change for _, change in credit.rebalance()) == 0
    assert sorted(credit.of(leader) for leader in "abc") == [3, 3, 4]


def test_held_credit_is_divided_again_after_the_release() -> None:
    credit: CreditSplit[str] = CreditSplit()
    credit.add("a")
    credit.grant(10)
    assert credit.hold() == [("a", -10)]
    credit.delivered("a", 3)  # sent before the leader received the withdrawal
    assert credit.grant(5) == []
    assert credit.add("b") == []
    assert credit.outstanding == 12
    assert dict(credit.release()) == {"a": 9, "b": 6}
    assert credit.outstanding == 12
