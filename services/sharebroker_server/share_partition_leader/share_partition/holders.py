"""The holders of locks: a member, or one of its streams, on behalf of a principal.

Only a lock's holder may acknowledge, renew or release its records. The text before the first "@" is the
number of a stream, if any, and the principal in percent encoding, which contains no "@"; the rest is the
member id (`core.runs.member_of`). Otherwise the core compares holders as texts.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import Final
from urllib.parse import quote, unquote

from sharebroker_server.security.principal import ANONYMOUS
from sharebroker_server.share_partition_leader.core.runs import member_of

MAX_CACHED_PRINCIPALS: Final = 1_000
"""Encoded principals that are cached."""

_streams: Final = count(1)


def member_holder(member_id: str, principal: str = "") -> str:
    """The holder of records that a member acquires by single calls; principal "": ANONYMOUS."""
    return f"{encoded_principal(principal)}@{member_id}" if principal else f"@{member_id}"


def new_stream_holder(member_id: str, principal: str = "") -> str:
    """A new holder, for a stream of a member."""
    return f"{next(_streams)}{encoded_principal(principal)}@{member_id}"


def principal_of(holder: str) -> str:
    """The principal of a holder; empty for ANONYMOUS."""
    return unquote(holder.partition("@")[0].partition("/")[2])


def is_held_by(holder: str, member_id: str, principal: str | None) -> bool:
    """Whether the holder is the member; for this principal, unless that is None."""
    return member_of(holder) == member_id and (principal is None or principal_of(holder) == principal)


@lru_cache(MAX_CACHED_PRINCIPALS)
def encoded_principal(principal: str) -> str:
    """Returns a principal as a part of a holder; "" for ANONYMOUS."""
    return "" if principal in ("", str(ANONYMOUS)) else f"/{quote(principal, safe='')}"
