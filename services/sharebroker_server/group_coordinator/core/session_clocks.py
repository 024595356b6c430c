"""What a coordinator knows of time and does not write down: it starts anew with every load of a shard."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from sharebroker_protocol.model import TopicIdPartition

K = TypeVar("K", bound=Hashable)


class Session(NamedTuple):
    """One member of one group."""

    group_id: str
    member_id: str


class Deadlines(Generic[K]):
    """When something is due for each key. One that moves away costs nothing until the old time has come."""

    __slots__ = ("_armed", "_deadlines", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._heap: list[tuple[float, K]] = []
        # The heap entry that counts for each key; others are left-overs.
        self._armed: dict[K, float] = {}

    def touch(self, key: K, deadline: float) -> None:
        """Due at `deadline`, not before."""
        self._deadlines[key] = deadline
        if deadline < self._armed.get(key, float("inf")):
            self._arm(key)

    def drop(self, key: K) -> None:
        """Never due."""
        self._deadlines.pop(key, None)
        self._armed.pop(key, None)

    def next_deadline(self) -> float | None:
        """When to look again, perhaps too early."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float, limit: int) -> list[K]:
        """Keys that are due now, at most `limit`; each is named once."""
        found: list[K] = []
        while self._heap and self._heap[0][0] <= now and len(found) < limit:
            when, key = heapq.heappop(self._heap)
            if self._armed.get(key) != when:
                continue
            del self._armed[key]
            if self._deadlines[key] <= now:
                found.append(key)
            else:
                self._arm(key)
        return found

    def _arm(self, key: K) -> None:
        self._armed[key] = self._deadlines[key]
        heapq.heappush(self._heap, (self._deadlines[key], key))


class Sessions(Deadlines[Session]):
    """When each member is to be fenced. Members found in the log begin with a full session."""

    __slots__ = ("_new",)

    def __init__(self) -> None:
        super().__init__()
        self._new: dict[Session, None] = {}

    def touch(self, key: Session, deadline: float) -> None:
        """The member was heard of: fence it at `deadline`, not before."""
        self._new.pop(key, None)
        super().touch(key, deadline)

    def track(self, session: Session) -> None:
        """The member exists; it needs a deadline if it has none."""
        if session not in self._deadlines:
            self._new[session] = None

    def drop(self, key: Session) -> None:
        """The member is gone."""
        self._new.pop(key, None)
        super().drop(key)

    def new(self) -> list[Session]:
        """Members without a deadline."""
        return list(self._new)

    def next_deadline(self) -> float | None:
        """When to look again: at once for members without a deadline, perhaps too early for others."""
        return 0.0 if self._new else super().next_deadline()


class Attempts:
    """Changes of share state that are under way, and until when nobody else is to try."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[str, dict[TopicIdPartition, float]] = {}

    def begin(self, group_id: str, partitions: Iterable[TopicIdPartition], until: float) -> None:
        """These are being changed."""
        changing = dict.fromkeys(partitions, until)
        if changing:  # names of groups that nobody made must not gather here
            self._until.setdefault(group_id, {}).update(changing)

    def end(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """These are not being changed any more."""
        running = self._until.get(group_id, {})
        for partition in partitions:
            running.pop(partition, None)
        if not running:
            self._until.pop(group_id, None)

    def running(self, group_id: str, now: float) -> set[TopicIdPartition]:
        """What is being changed in a group."""
        return {partition for partition, until in self._until.get(group_id, {}).items() if until > now}
