"""Divides one consumer's credit over the leaders that deliver to it.

A leader may deliver as many records as it was granted. New credit goes to the leaders with the least. Idle
credit moves from a leader that delivers nothing to one without credit, so that a single credit can find a
record at any leader.

Invariant: `pool` plus the credit of all leaders is the credit that the client granted and that was not used.
A grant is a pair (leader, records); a negative one withdraws credit. A leader may deliver more records before
it receives a withdrawal; they count as `_owed` when it is granted credit again.

The rules are pure: the caller sends the grants and calls `rebalance` at intervals.
"""

from __future__ import annotations

from typing import Generic, TypeVar

L = TypeVar("L")
Grants = list[tuple[L, int]]


class CreditSplit(Generic[L]):
    """`pool` is credit that no leader has; below 0 if more was delivered than granted.

    While the credit is `held`, it is in the pool.
    """

    __slots__ = ("_credit", "_delivered", "_owed", "held", "pool")

    def __init__(self) -> None:
        self.pool = 0
        self.held = False
        self._credit: dict[L, int] = {}
        self._owed: dict[L, int] = {}
        self._delivered: set[L] = set()

    @property
    def outstanding(self) -> int:
        """The credit that was granted and not used."""
        return self.pool + sum(self._credit.values())

    def of(self, leader: L) -> int:
        """The credit of a leader; below 0 if it delivered more."""
        return self._credit.get(leader, 0)

    def grant(self, records: int) -> Grants[L]:
        """The client grants more credit, or withdraws some (below 0)."""
        self.pool += records
        return self._distribute() if records > 0 else self._collect()

    def hold(self) -> Grants[L]:
        """Withdraws the credit of all leaders until `release`."""
        self.held = True
        return [self._give(leader, -credit) for leader, credit in self._credit.items() if credit > 0]

    def release(self) -> Grants[L]:
        """Divides the credit over the leaders again."""
        self.held = False
        return self._distribute()

    def add(self, leader: L) -> Grants[L]:
        """Adds a leader, or a leader that was parked."""
        self._credit.setdefault(leader, 0)
        changes = {leader: self._owed.pop(leader, 0)}
        return self._changed(changes)

    def park(self, leader: L) -> Grants[L]:
        """Withdraws the credit of a leader without partitions and divides it over the others."""
        credit = self._credit.pop(leader, 0)
        self._delivered.discard(leader)
        self.pool += credit
        return self._changed({leader: -credit})

    def remove(self, leader: L) -> Grants[L]:
        """Removes a leader that failed."""
        self._owed.pop(leader, None)
        return [grant for grant in self.park(leader) if grant[0] != leader]

    def delivered(self, leader: L, records: int) -> None:
        """A leader used some of its credit."""
        if leader in self._credit:
            self._credit[leader] -= records
            self._delivered.add(leader)
        else:  # sent before the leader received the withdrawal
            self.pool -= records
            self._owed[leader] = self._owed.get(leader, 0) + records

    def rebalance(self) -> Grants[L]:
        """Moves credit from leaders that delivered nothing since the last call to those without credit."""
        idle = [
            leader for leader, credit in self._credit.items() if credit > 0 and leader not in self._delivered
        ]
        dry = [leader for leader, credit in self._credit.items() if credit <= 0]
        self._delivered.clear()
        if not idle or not dry:
            return []
        changes = dict.fromkeys(idle, 0)
        for leader in idle:
            half = (self._credit[leader] + 1) // 2
            # Moves to the end, so that leaders that waited longer are served first.
            self._credit[leader] = self._credit.pop(leader) - half
            self.pool += half
            changes[leader] = -half
        return self._changed(changes)

    def _changed(self, changes: dict[L, int]) -> Grants[L]:
        """The given changes and the shares of the pool, combined per leader."""
        for leader, share in self._distribute():
            changes[leader] = changes.get(leader, 0) + share
        return [(leader, change) for leader, change in changes.items() if change]

    def _distribute(self) -> Grants[L]:
        """Divides the pool so that the leaders with the least credit become equal."""
        if self.held or self.pool <= 0 or not self._credit:
            return []
        credit = self._credit
        if len(credit) == 1:  # the usual case
            return [self._give(leader, self.pool) for leader in credit]
        poorest = sorted(credit, key=credit.__getitem__)
        total = self.pool + sum(credit.values())
        while credit[poorest[-1]] * len(poorest) > total:
            total -= credit[poorest.pop()]
        level, more = divmod(total, len(poorest))
        shares = [(leader, level + (turn < more) - credit[leader]) for turn, leader in enumerate(poorest)]
        return [self._give(leader, share) for leader, share in shares if share]

    def _collect(self) -> Grants[L]:
        """Withdraws credit from the leaders with the most, until the pool is 0."""
        changes = []
        for leader in sorted(self._credit, key=self._credit.__getitem__, reverse=True):
            taken = min(self._credit[leader], -self.pool)
            if taken > 0:
                changes.append(self._give(leader, -taken))
        return changes

    def _give(self, leader: L, records: int) -> tuple[L, int]:
        self.pool -= records
        self._credit[leader] += records
        return leader, records
