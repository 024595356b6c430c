"""What a coordinator knows of time and does not write down: it starts anew with every load of a shard."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from services.group_coordinator.core.model import TopicPartition


class Session(NamedTuple):
    """One member of one group."""

    group_id: str
    member_id: str


class Sessions:
    """When each member is to be fenced. Members found in the log begin with a full session."""

    __slots__ = ("_armed", "_deadlines", "_heap", "_new")

    def __init__(self) -> None:
        self._deadlines: dict[Session, float] = {}
        self._heap: list[tuple[float, Session]] = []
        # The heap entry that counts for each session; others are left-overs.
        self._armed: dict[Session, float] = {}
        self._new: dict[Session, None] = {}

    def touch(self, session: Session, deadline: float) -> None:
        """The member was heard of: fence it at `deadline`, not before."""
        self._new.pop(session, None)
        self._deadlines[session] = deadline
        if deadline < self._armed.get(session, float("inf")):
            self._arm(session)

    def track(self, session: Session) -> None:
        """The member exists; it needs a deadline if it has none."""
        if session not in self._deadlines:
            self._new[session] = None

    def drop(self, session: Session) -> None:
        """The member is gone."""
        self._new.pop(session, None)
        self._deadlines.pop(session, None)
        self._armed.pop(session, None)

    def new(self) -> list[Session]:
        """Members without a deadline."""
        return list(self._new)

    def next_deadline(self) -> float | None:
        """When to look again: at once for members without a deadline, perhaps too early for others."""
        if self._new:
            return 0.0
        return self._heap[0][0] if self._heap else None

    def due(self, now: float, limit: int) -> list[Session]:
        """Members to fence now, at most `limit`; each is named once."""
        found: list[Session] = []
        while self._heap and self._heap[0][0] <= now and len(found) < limit:
            when, session = heapq.heappop(self._heap)
            if self._armed.get(session) != when:
                continue
            del self._armed[session]
            if self._deadlines[session] <= now:
                found.append(session)
            else:
                self._arm(session)
        return found

    def _arm(self, session: Session) -> None:
        self._armed[session] = self._deadlines[session]
        heapq.heappush(self._heap, (self._deadlines[session], session))


class Attempts:
    """Changes of share state that are under way, and until when nobody else is to try."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[str, dict[TopicPartition, float]] = {}

    def begin(self, group_id: str, partitions: Iterable[TopicPartition], until: float) -> None:
        """These are being changed."""
        changing = dict.fromkeys(partitions, until)
        if changing:  # names of groups that nobody made must not gather here
            self._until.setdefault(group_id, {}).update(changing)

    def end(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """These are not being changed any more."""
        running = self._until.get(group_id, {})
        for partition in partitions:
            running.pop(partition, None)
        if not running:
            self._until.pop(group_id, None)

    def running(self, group_id: str, now: float) -> set[TopicPartition]:
        """What is being changed in a group."""
        return {partition for partition, until in self._until.get(group_id, {}).items() if until > now}
