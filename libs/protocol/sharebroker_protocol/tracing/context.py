"""Where in which trace something happens, as W3C's Trace Context writes it into headers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
LENGTH: Final = 55
"""Characters of a `traceparent` of version 00."""

BYTES: Final = 768
"""What the headers of a context add to a record at most."""

_SAMPLED: Final = 1
_LONGEST_STATE: Final = 512
_MOST_MEMBERS: Final = 32
_MEMBER: Final = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[ !-+\--<>-~]{0,255}[!-+\--<>-~]"
)
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceContext(NamedTuple):
    """A span as others name it; `state` is passed on as it came."""

    trace_id: int
    span_id: int
    flags: int = _SAMPLED
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Whether whoever began it keeps it."""
        return bool(self.flags & _SAMPLED)

    @property
    def parent(self) -> str:
        """The value of `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What tells others."""
        told = [(PARENT, self.parent)]
        return [*told, (STATE, self.state)] if self.state else told


def parse(parent: str, state: str = "") -> TraceContext | None:
    """What the headers say; None for what is no trace context."""
    form = _FORM.fullmatch(parent)
    if form is None or form[1] == "ff" or (form[1] == "00" and form[5]):
        return None
    trace_id, span_id = int(form[2], 16), int(form[3], 16)
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, int(form[4], 16), state if state and _is_state(state) else "")


def _is_state(text: str) -> bool:
    """Whether it is a `tracestate` that can be passed on; who reads it complains of others."""
    if len(text) > _LONGEST_STATE:  # first, for a header may have a megabyte, which would be looked through
        return False
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    names = {member.partition("=")[0] for member in members if _MEMBER.fullmatch(member)}
    return len(members) == len(names) <= _MOST_MEMBERS


def of_headers(headers: Iterable[tuple[str, bytes | None]]) -> TraceContext | None:
    """The context that a record's headers have; of several the last counts, as for Kafka's clients."""
    parent = state = b""
    for name, value in headers:
        if name == PARENT:
            parent = value or b""
        elif name == STATE:
            state = value or b""
    return parse(parent.decode("latin-1"), state.decode("latin-1")) if parent else None
