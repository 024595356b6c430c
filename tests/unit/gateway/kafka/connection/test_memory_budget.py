"""Room for large requests, and for answers that nobody takes."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.kafka.connection.memory_budget import MemoryBudget, UnreadResponses


class Asker:
    """Someone who wants room; `has` what was granted."""

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self.size = size
        self.has = budget.reserve(size, self._granted)

    def _granted(self) -> None:
        assert not self.has
        self.has = True

    def leave(self) -> None:
        if self.has:
            self._budget.release(self.size)
        else:
            self._budget.withdraw(self.size, self._granted)


def test_reservations_are_granted_in_order() -> None:
    budget = MemoryBudget(10)
    first, second, third = Asker(budget, 6), Asker(budget, 6), Asker(budget, 1)
    assert [first.has, second.has, third.has] == [True, False, False]
    assert (budget.used, budget.waiting) == (6, 2)
    first.leave()
    assert [second.has, third.has] == [True, True]
    assert (budget.used, budget.waiting) == (7, 0)


def test_a_request_larger_than_the_limit_is_admitted_alone() -> None:
    budget = MemoryBudget(10)
    small, giant, next_one = Asker(budget, 1), Asker(budget, 99), Asker(budget, 1)
    assert not giant.has
    small.leave()
    assert giant.has
    assert not next_one.has
    giant.leave()
    assert next_one.has


def test_a_withdrawn_reservation_admits_the_next() -> None:
    budget = MemoryBudget(10)
    holder, large, small = Asker(budget, 5), Asker(budget, 6), Asker(budget, 5)
    large.leave()
    assert small.has
    holder.leave()
    small.leave()
    assert (budget.used, budget.waiting) == (0, 0)


@given(
    limit=st.integers(1, 50),
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=20),
    leaving=st.randoms(use_true_random=False),
)
def test_every_reservation_is_granted_or_withdrawn(
    limit: int, sizes: list[int], leaving: Callable[[], float]
) -> None:
    """Whoever leaves when, all are let in, in their order, and never more than there is room for."""
    budget = MemoryBudget(limit)
    askers = [Asker(budget, size) for size in sizes]
    while askers:
        held = [asker for asker in askers if asker.has]
        assert sum(asker.size for asker in held) == budget.used
        assert budget.used <= limit or len(held) == 1
        assert held == askers[: len(held)], "in their order"
        leaver = leaving.choice(held if leaving.random() < 0.8 else askers)  # type: ignore[attr-defined]  # Random
        leaver.leave()
        askers.remove(leaver)
    assert (budget.used, budget.waiting) == (0, 0)


def test_the_client_longest_without_reading_is_disconnected_first() -> None:
    untaken, gone = UnreadResponses(10), list[str]()
    drops = {name: (lambda name=name: gone.append(name)) for name in "abcd"}
    untaken.add(4, drops["a"])
    untaken.add(4, drops["b"])
    untaken.add(2, drops["c"])
    assert (untaken.bytes, gone) == (10, [])
    untaken.remove(drops["a"])
    untaken.remove(drops["a"])
    assert untaken.bytes == 6
    untaken.add(5, drops["a"])
    assert (untaken.bytes, gone) == (7, ["b"])
    untaken.add(9, drops["d"])
    assert (untaken.bytes, gone) == (9, ["b", "c", "a"])
    untaken.add(99, drops["b"])
    assert (untaken.bytes, gone) == (99, ["b", "c", "a", "d"]), "one alone may be as large as it is"
