"""Who holds a record: a stream of a member, or the member itself through single calls.

A member that opens a second stream before the end of its first is noticed must not lose the new stream's
records to the release of the old one's, so each stream holds for itself. Either name can be told from the
other, and the member be told from it, whatever characters the member's id has.
"""

from __future__ import annotations

from itertools import count
from typing import Final

REMEMBERED: Final = 10_000
"""Sessions that ended, the last ones: a fetch of one that is under way hears of it within its wait."""

_streams: Final = count(1)


def of_member(member_id: str) -> str:
    """The holder of what a member acquires by single calls."""
    return f"@{member_id}"


def of_new_stream(member_id: str) -> str:
    """A holder of its own for each stream of a member."""
    return f"{next(_streams)}@{member_id}"


def member_of(holder: str) -> str:
    """The member behind a holder; nobody is nobody's."""
    return holder.partition("@")[2]


class EndedSessions:
    """Share sessions that ended: a fetch that was under way must acquire nothing for them any more."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._ids

    def add(self, session_id: str) -> None:
        """It ended; the one that ended first is forgotten where there are too many."""
        if len(self._ids) >= REMEMBERED:
            del self._ids[next(iter(self._ids))]
        self._ids[session_id] = None
