"""Deadlines of a coordinator. They are soft state: not in the log, and new after every load of a shard."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import SoftChange

K = TypeVar("K", bound=Hashable)


class MemberSession(NamedTuple):
    """One member of one group."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class DeadlineSet(SoftChange, Generic[K]):
    """The deadline of a key is another one from now on; None removes it."""

    key: K
    deadline: float | None


class Deadlines(Generic[K]):
    """A deadline per key. Moving a deadline to a later time costs nothing until the earlier time has come."""

    __slots__ = ("_armed", "_deadlines", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        # The heap may hold outdated entries; `_armed` has the entry that counts for each key.
        self._heap: list[tuple[float, K]] = []
        self._armed: dict[K, float] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, deadline: float) -> None:
        """Sets the deadline of a key, earlier or later than before."""
        self._deadlines[key] = deadline
        if deadline < self._armed.get(key, float("inf")):
            self._arm(key)

    def drop(self, key: K) -> None:
        """Removes the deadline of a key, if it has one."""
        self._deadlines.pop(key, None)
        self._armed.pop(key, None)

    def apply_soft(self, change: DeadlineSet[K]) -> None:
        """Sets or removes a deadline."""
        if change.deadline is None:
            self.drop(change.key)
        else:
            self.set(change.key, change.deadline)

    def next_deadline(self) -> float | None:
        """Returns a time at or before the earliest deadline; None if there is no deadline."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float, limit: int) -> list[K]:
        """Returns at most `limit` keys whose deadline has passed, earliest first. Changes no deadline."""
        found: list[K] = []
        while self._heap and self._heap[0][0] <= now and len(found) < limit:
            when, key = heapq.heappop(self._heap)
            if self._armed.get(key) != when:
                continue
            del self._armed[key]  # the heap may contain the same entry twice
            if self._deadlines[key] == when:
                found.append(key)
            else:  # the deadline moved
                self._arm(key)
        for key in found:
            self._arm(key)
        return found

    def _arm(self, key: K) -> None:
        self._armed[key] = self._deadlines[key]
        heapq.heappush(self._heap, (self._deadlines[key], key))


class StateChangesInProgress:
    """The share-partitions whose state is being initialised or deleted.

    Each has the time until which no other change may start.
    """

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[str, dict[TopicIdPartition, float]] = {}

    def begin(self, group_id: str, partitions: Iterable[TopicIdPartition], until: float) -> None:
        """Adds changes; after `until` they count as interrupted."""
        changing = dict.fromkeys(partitions, until)
        if changing:  # entries of groups that never existed must not accumulate
            self._until.setdefault(group_id, {}).update(changing)

    def end(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Removes changes that ended."""
        running = self._until.get(group_id, {})
        for partition in partitions:
            running.pop(partition, None)
        if not running:
            self._until.pop(group_id, None)

    def running(self, group_id: str, now: float) -> set[TopicIdPartition]:
        """Returns the partitions of a group that are being changed."""
        return {partition for partition, until in self._until.get(group_id, {}).items() if until > now}
