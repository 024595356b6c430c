"""Names of things, as sessions and validation speak of them."""

from __future__ import annotations

from typing import NamedTuple


class SessionKey(NamedTuple):
    """Whose share session it is."""

    group_id: str
    member_id: str
