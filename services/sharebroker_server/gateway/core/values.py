"""Keys that sessions and validation share."""

from __future__ import annotations

from typing import NamedTuple


class SessionKey(NamedTuple):
    """Names a member's share session."""

    group_id: str
    member_id: str
