"""Who holds a record: a stream of a member, or the member itself through single calls.

A member that opens a second stream before the end of its first is noticed must not lose the new stream's
records to the release of the old one's, so each stream holds for itself. Either name can be told from the
other, and the member be told from it, whatever characters the member's id has.
"""

from __future__ import annotations

from itertools import count
from typing import Final

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
