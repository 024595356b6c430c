"""The audit log: one line per denied call and per administrative change.

Theory of operation
-------------------

Lines have the field `logger` with the value `sharebroker.audit`, and are written whatever `log.level` is. A
line names the principal, its host, the listener and API that received the call, the operation, the resource
and the outcome. It contains no password, salt, key or token.

* Every successful administrative change has its own line.
* Of equal denials and equal failed changes only the first within `WINDOW` seconds has one. At the end of that
  time a line reports how often it was repeated. A client therefore cannot flood the log. At most
  `MAX_WINDOWS` such times run at once; denials beyond them are counted together.

A listener calls `serving` before it serves a request. The functions that change something then need no
parameter for the caller: they use the origin of the current request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.acl import AclOperation, Requester, Resource
from sharebroker_server.security.principal import ANONYMOUS

AUDIT: Final = "sharebroker.audit"
"""The value of `logger` in the lines of the audit log."""

WINDOW: Final = 30.0
"""Seconds in which repetitions of a denial are counted instead of logged."""

MAX_WINDOWS: Final = 1000
"""The largest number of different denials whose repetitions are counted separately."""

LONGEST_NAME: Final = 249
"""Maximum characters of a name in a line; clients choose names."""

_log = structlog.get_logger()


class RequestOrigin(NamedTuple):
    """Where a request came from. `listener` is `kafka` or `grpc`; `api` is empty if it is unknown."""

    requester: Requester
    listener: str
    api: str = ""

    def fields(self) -> dict[str, str]:
        """Returns the fields of a line."""
        host = self.requester.host.removeprefix("/")
        known = {
            "logger": AUDIT,
            "principal": _short(str(self.requester.principal)),
            "host": host,
            "listener": self.listener,
        }
        return {**known, "api": self.api} if self.api else known


_INTERNAL: Final = RequestOrigin(Requester(ANONYMOUS, ""), "internal")
_origin: ContextVar[Callable[[], RequestOrigin]] = ContextVar("origin", default=lambda: _INTERNAL)


serving: Final = _origin.set
"""Sets the origin of the request that this task serves, a function called only if a line is written."""


@dataclass(slots=True, eq=False)
class Window:
    """The time after a denial in which equal ones are counted."""

    key: Hashable
    since: float
    repeated: int = 0


_SHARED: Final = ()
"""The key of the window that different denials share."""


class Windows:
    """Decides which denials have a line of their own. `limit` is the largest number of open windows."""

    __slots__ = ("_limit", "_open")

    def __init__(self, limit: int = MAX_WINDOWS) -> None:
        self._limit = limit
        self._open: dict[Hashable, Window] = {}

    def admit(self, key: Hashable, now: float) -> Window | None:
        """Returns the window that a first denial opens; None for a repetition, which is counted.

        Denials beyond the limit share the window `_SHARED`. `now` is in seconds.
        """
        self._expire(now)
        if key not in self._open and len(self._open) >= self._limit:
            key = _SHARED
        if key in self._open:
            self._open[key].repeated += 1
            return None
        self._open[key] = window = Window(key, now)
        return window

    def close(self, window: Window) -> int:
        """Closes a window; returns the number of repetitions in it."""
        if self._open.get(window.key) is window:
            del self._open[window.key]
        return window.repeated

    def clear(self) -> None:
        """Closes all windows."""
        self._open.clear()

    def _expire(self, now: float) -> None:
        """Closes windows that are over, whether or not their timers fired."""
        while self._open:
            oldest = next(iter(self._open.values()))
            if now - oldest.since < WINDOW:
                return
            del self._open[oldest.key]


windows: Final = Windows()
"""The windows of this process."""


def change(operation: str, kind: str, name: str, error_code: int = 0, **details: object) -> None:
    """Logs a change that a request made to the resource `name` of type `kind`, or its failure.

    `details` are further fields; the caller leaves out secrets.
    """
    outcome = ErrorCode(error_code).name if error_code else "success"
    fields = {"operation": operation, "resource_type": kind, "resource": _short(name), "outcome": outcome}
    origin = _origin.get()()
    if not error_code:
        _log.info("administrative change", **origin.fields(), **fields, **details)
    elif _first(origin.fields() | fields):
        _log.warning("administrative change failed", **origin.fields(), **fields)


@contextmanager
def changing(operation: str, kind: str, names: Iterable[str]) -> Iterator[None]:
    """Logs a change of each resource as failed if the context ends with an error.

    After REQUEST_TIMED_OUT the change may have been made.
    """
    try:
        yield
    except (KafkaError, asyncio.CancelledError) as error:
        code = error.code if isinstance(error, KafkaError) else ErrorCode.REQUEST_TIMED_OUT
        for name in names:
            change(operation, kind, name, code)
        raise


def denied(requester: Requester, operation: AclOperation, resource: Resource) -> None:
    """Logs a request that the authorizer denied."""
    origin = _origin.get()()._replace(requester=requester)
    fields = {
        **origin.fields(),
        "operation": operation.name,
        "resource_type": resource.type.name,
        "resource": _short(resource.name),
    }
    if _first(fields):
        _log.warning("authorization denied", **fields, outcome="denied")


def unauthenticated(listener: str, host: str, mechanism: str, user: str) -> None:
    """Logs a failed authentication; `user` is the name that the client claims, empty without one."""
    fields = {
        "logger": AUDIT,
        "principal": str(ANONYMOUS),
        "host": host.removeprefix("/"),
        "listener": listener,
        "mechanism": mechanism,
        "user": _short(user),
    }
    if _first(fields):
        _log.warning("authentication failed", **fields, outcome="denied")


def internal_call_denied(method: str, peer: str, host: str, reason: str) -> None:
    """Logs a call of an internal RPC whose caller, `peer`, is not a process of the cluster."""
    fields = {"logger": AUDIT, "host": host, "listener": "grpc", "method": method, "reason": reason}
    if _first(fields):
        fields |= {"peer": peer, "operation": AclOperation.CLUSTER_ACTION.name, "outcome": "denied"}
        _log.warning("call of an internal RPC denied", **fields)


def _first(fields: dict[str, str]) -> bool:
    """Returns whether this denial has a line; else it is counted, and reported when its window closes."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # without an event loop the next denial after the window closes it
        return windows.admit(tuple(fields.values()), monotonic()) is not None
    window = windows.admit(tuple(fields.values()), loop.time())
    if window is not None:
        loop.call_later(WINDOW, _report, window, fields)
    return window is not None


def _report(window: Window, fields: dict[str, str]) -> None:
    repeated = windows.close(window)
    if repeated:
        # The window that many different denials share has no fields of its own.
        _log.warning(
            "denials repeated", **({"logger": AUDIT} if window.key == _SHARED else fields), repeated=repeated
        )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
