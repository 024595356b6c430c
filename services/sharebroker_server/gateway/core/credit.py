"""One consumer's credit, spread over the leaders that deliver to it.

A leader may deliver as many records as it was granted. Whoever delivers gets new credit first; credit that
lies idle at one leader moves to another that has none left, so that a single credit finds a record anywhere.
Grants are pairs (leader, records); a negative one takes back. Pure: the caller sends them and keeps time.
"""

from __future__ import annotations

from typing import Generic, TypeVar

L = TypeVar("L")
Grants = list[tuple[L, int]]


class CreditSplit(Generic[L]):
    """`pool` is what the client granted and no leader has; below 0: more was delivered than granted."""

    __slots__ = ("_delivered", "_left", "_owed", "pool")

    def __init__(self) -> None:
        self.pool = 0
        self._left: dict[L, int] = {}
        self._owed: dict[L, int] = {}
        self._delivered: set[L] = set()

    @property
    def outstanding(self) -> int:
        """What was granted and not used, wherever it is."""
        return self.pool + sum(self._left.values())

    def left(self, leader: L) -> int:
        """What the leader may still deliver; below 0 when it delivered more."""
        return self._left.get(leader, 0)

    def grant(self, records: int) -> Grants[L]:
        """The client takes more records; below 0: fewer."""
        self.pool += records
        return self._distribute() if records > 0 else self._collect()

    def add(self, leader: L) -> Grants[L]:
        """A leader begins to deliver, or begins again."""
        self._left.setdefault(leader, 0)
        changes = {leader: self._owed.pop(leader, 0)}
        return self._changed(changes)

    def park(self, leader: L) -> Grants[L]:
        """A leader has nothing to deliver from for now: its credit is taken back and goes to others."""
        left = self._left.pop(leader, 0)
        self._delivered.discard(leader)
        self.pool += left
        return self._changed({leader: -left})

    def remove(self, leader: L) -> Grants[L]:
        """A leader is gone, with what it knew of credit."""
        self._owed.pop(leader, None)
        return [grant for grant in self.park(leader) if grant[0] != leader]

    def delivered(self, leader: L, records: int) -> None:
        """The leader used some of its credit."""
        if leader in self._left:
            self._left[leader] -= records
            self._delivered.add(leader)
        else:  # sent before it heard that its credit was taken back: it counts less than nothing now
            self.pool -= records
            self._owed[leader] = self._owed.get(leader, 0) + records

    def rebalance(self) -> Grants[L]:
        """Move credit from leaders that delivered nothing since the last call to those with none left."""
        idle = [leader for leader, left in self._left.items() if left > 0 and leader not in self._delivered]
        dry = [leader for leader, left in self._left.items() if left <= 0]
        self._delivered.clear()
        if not idle or not dry:
            return []
        changes = dict.fromkeys(idle, 0)
        for leader in idle:
            half = (self._left[leader] + 1) // 2
            # To the end, so that the next to be given some is one that has waited for longer.
            self._left[leader] = self._left.pop(leader) - half
            self.pool += half
            changes[leader] = -half
        return self._changed(changes)

    def _changed(self, changes: dict[L, int]) -> Grants[L]:
        """The given changes and the shares of the pool, one for each leader."""
        for leader, share in self._distribute():
            changes[leader] = changes.get(leader, 0) + share
        return [(leader, change) for leader, change in changes.items() if change]

    def _distribute(self) -> Grants[L]:
        """Hand the pool out so that those with the least come level."""
        if self.pool <= 0 or not self._left:
            return []
        left = self._left
        poorest = sorted(left, key=left.__getitem__)
        total = self.pool + sum(left.values())
        while left[poorest[-1]] * len(poorest) > total:
            total -= left[poorest.pop()]
        level, more = divmod(total, len(poorest))
        shares = [(leader, level + (turn < more) - left[leader]) for turn, leader in enumerate(poorest)]
        return [self._give(leader, share) for leader, share in shares if share]

    def _collect(self) -> Grants[L]:
        """Make up for a pool below 0 from those with the most left."""
        changes = []
        for leader in sorted(self._left, key=self._left.__getitem__, reverse=True):
            taken = min(self._left[leader], -self.pool)
            if taken > 0:
                changes.append(self._give(leader, -taken))
        return changes

    def _give(self, leader: L, records: int) -> tuple[L, int]:
        self.pool -= records
        self._left[leader] += records
        return leader, records
