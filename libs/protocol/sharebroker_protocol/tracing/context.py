"""W3C trace context in record headers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
LENGTH: Final = 55
"""Characters of a `traceparent` of version 00."""

BYTES: Final = 768
"""The largest size that the headers add to a record."""

_SAMPLED: Final = 1
_LONGEST_STATE: Final = 512
_MOST_MEMBERS: Final = 32
_MEMBER: Final = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[ !-+\--<>-~]{0,255}[!-+\--<>-~]"
)
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceContext(NamedTuple):
    """Identifies a span across processes; `state` is passed on unchanged."""

    trace_id: int
    span_id: int
    flags: int = _SAMPLED
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the process that started the trace sampled it."""
        return bool(self.flags & _SAMPLED)

    @property
    def parent(self) -> str:
        """The value of `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers that carry the context."""
        headers = [(PARENT, self.parent)]
        return [*headers, (STATE, self.state)] if self.state else headers


def parse(parent: str, state: str = "") -> TraceContext | None:
    """Parses header values; returns None for an invalid `traceparent`."""
    form = _FORM.fullmatch(parent)
    if form is None or form[1] == "ff" or (form[1] == "00" and form[5]):
        return None
    trace_id, span_id = int(form[2], 16), int(form[3], 16)
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, int(form[4], 16), state if state and _is_state(state) else "")


def _is_state(text: str) -> bool:
    """Whether a `tracestate` is valid; an invalid one makes receivers log errors."""
    if len(text) > _LONGEST_STATE:  # checked first: a header may have a megabyte
        return False
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    names = {member.partition("=")[0] for member in members if _MEMBER.fullmatch(member)}
    return len(members) == len(names) <= _MOST_MEMBERS


def of_headers(headers: Iterable[tuple[str, bytes | None]]) -> TraceContext | None:
    """Returns the context in a record's headers; the last one wins, as in Kafka's clients."""
    parent = state = b""
    for name, value in headers:
        if name == PARENT:
            parent = value or b""
        elif name == STATE:
            state = value or b""
    return parse(parent.decode("latin-1"), state.decode("latin-1")) if parent else None
