"""Sessions of share group members, which outlast restarts of the coordinator.

Theory of operation
-------------------

A member is fenced when it has sent no heartbeat for its session timeout. The times of heartbeats are soft
state, because a write per heartbeat would be too expensive. A coordinator that loads a group therefore
starts a new session for each member. Without more, coordinators that restart more often than sessions time
out would never fence a dead member.

So the *silence* of a member, the time since its last heartbeat, is stored, in two numbers:

* `since`: when it began; the time of the load if the last heartbeat was before.
* `served`: how much of it coordinators were up and served the group. The time in which a heartbeat would
  have arrived; downtime does not count.

A member is fenced when two times have passed: the session timeout since `since`, and a *chance* of three
heartbeat intervals (at most the session timeout) in `served`. The first bounds how long a dead member keeps
its partitions. The second protects a live member from downtime, however long or frequent: it sends a
heartbeat within one interval of `served`, which ends the silence.

When silence is stored:

* After a load, once a fifth of the heartbeat interval was served, and then each time the part served since
  the load has doubled, until the chance is complete. A coordinator that stops in between loses at most half
  of what it served, or one that serves less than a fifth of the interval all of it.
* After a heartbeat, once the silence reaches the chance. A live member never gets there, so it causes no
  writes between two loads.

The first heartbeat after silence was stored deletes it, in the decision about the heartbeat: once the member
has its response, no later load can count from before.

The clock of one process never jumps, that of the next may differ. If it is behind, `since` may be in the
future; it is then replaced by the time of the load. If it is ahead, the session timeout seems to have passed,
and the chance still protects live members.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from sharebroker_server.group_coordinator.core.deadlines import Deadlines, MemberSession

_CHANCE_INTERVALS: Final = 3
_FIRST_STORED: Final = 0.2
"""The part of the heartbeat interval after which silence is stored for the first time after a load."""
_SHORTEST: Final = 0.01
"""Seconds: the shortest time after which silence is stored, however short the heartbeat interval is."""


class Silence(NamedTuple):
    """The stored silence of a member, in milliseconds; `since_ms` is a time since the Unix epoch."""

    since_ms: int
    served_ms: int


class Timing(NamedTuple):
    """The session timeout and the heartbeat interval of a group, in seconds."""

    timeout: float
    interval: float

    @property
    def chance(self) -> float:
        """Seconds in which a member is not fenced while the group is served, whatever its silence is."""
        return min(_CHANCE_INTERVALS * self.interval, self.timeout)


class Observation(NamedTuple):
    """The wait of one coordinator for the next heartbeat of a member; times in seconds.

    It began at `started`, the time of the load (`loaded`) or of the last heartbeat. The silence began at
    `since`; coordinators had served `served` seconds of it when the observation began.
    """

    since: float
    started: float
    served: float = 0.0
    loaded: bool = False

    @staticmethod
    def after_heartbeat(now: float) -> Observation:
        """Returns the observation that a heartbeat begins."""
        return Observation(now, now)

    @staticmethod
    def after_load(stored: Silence | None, now: float) -> Observation:
        """Returns the observation that a load begins."""
        if stored is None:
            return Observation(now, now, loaded=True)
        return Observation(min(stored.since_ms / 1000, now), now, stored.served_ms / 1000, loaded=True)

    def silence(self, now: float, timing: Timing) -> Silence:
        """Returns the silence to store at `now`."""
        served = min(self.served + now - self.started, timing.chance)
        return Silence(_ms(self.since), _ms(served))

    def fenced_at(self, timing: Timing) -> float:
        """Returns when the member is fenced unless a heartbeat arrives."""
        return max(self.since + timing.timeout, self.started + timing.chance - self.served)

    def stored_at(self, stored: Silence | None, timing: Timing) -> float:
        """Returns when the silence is stored next, given what is stored; infinity if never."""
        first = max(_FIRST_STORED * timing.interval, _SHORTEST) if self.loaded else timing.chance
        if stored is None or stored.since_ms > _ms(self.since):
            return self.started + first
        if stored.served_ms >= _ms(timing.chance):
            return inf
        counted = stored.served_ms / 1000 - self.served
        return self.started + min(max(2 * counted, first), timing.chance - self.served)

    def next_check(self, stored: Silence | None, timing: Timing) -> float:
        """Returns when to fence the member or to store its silence, whichever is first."""
        return min(self.fenced_at(timing), self.stored_at(stored, timing))


class Sessions:
    """The observations of a shard's members. A member loaded from the log is *new*: it has none yet."""

    __slots__ = ("_checks", "_new", "_observations")

    def __init__(self) -> None:
        self._checks: Deadlines[MemberSession] = Deadlines()
        self._observations: dict[MemberSession, Observation] = {}
        self._new: dict[MemberSession, None] = {}

    def set(self, session: MemberSession, observation: Observation, check_at: float) -> None:
        """Sets the observation of a member, and when its session is checked."""
        self._new.pop(session, None)
        self._observations[session] = observation
        self._checks.set(session, check_at)

    def observation(self, session: MemberSession) -> Observation:
        """Returns the observation of a member that is not new."""
        return self._observations[session]

    def track(self, session: MemberSession) -> None:
        """Adds a member, as new if it has no observation."""
        if session not in self._observations:
            self._new[session] = None

    def drop(self, session: MemberSession) -> None:
        """Removes a member."""
        self._new.pop(session, None)
        self._observations.pop(session, None)
        self._checks.drop(session)

    def new(self) -> list[MemberSession]:
        """Returns the members without an observation."""
        return list(self._new)

    def due(self, now: float, limit: int) -> list[MemberSession]:
        """Returns at most `limit` members whose session has to be checked. Changes nothing."""
        return self._checks.due(now, limit)

    def next_check(self) -> float | None:
        """Returns 0 while there are new members, else a time at or before the next check."""
        return 0.0 if self._new else self._checks.next_deadline()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
