"""Names of lock holders: a stream of a member, or the member itself through single calls.

A member may open a second stream before the end of its first is detected. The release of the first stream's
records must not affect the second's, so each stream is a holder of its own. The two forms of names differ,
and both contain the member id, whatever characters it has.
"""

from __future__ import annotations

from itertools import count
from typing import Final

MOST_ENDED_SESSIONS: Final = 10_000
"""The most ended sessions that are stored: enough for the longest wait of a fetch."""

_streams: Final = count(1)


def of_member(member_id: str) -> str:
    """The holder of records that a member acquires by single calls."""
    return f"@{member_id}"


def of_new_stream(member_id: str) -> str:
    """A new holder, for a stream of a member."""
    return f"{next(_streams)}@{member_id}"


def member_of(holder: str) -> str:
    """The member id of a holder; empty for DELAYED_RELEASE."""
    return holder.partition("@")[2]


class EndedSessions:
    """Share sessions that ended recently: a fetch in flight must not acquire records for them."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._ids

    def add(self, session_id: str) -> None:
        """Adds a session; beyond the limit the oldest one is evicted."""
        if len(self._ids) >= MOST_ENDED_SESSIONS:
            del self._ids[next(iter(self._ids))]
        self._ids[session_id] = None
