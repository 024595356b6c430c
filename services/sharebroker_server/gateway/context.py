"""The context of all handlers: sessions, clients of other services, streams and counts of fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from uuid import uuid4

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns, logged
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.client_quotas import ClientQuotas
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT, Coordinators, Leaders
from sharebroker_server.gateway.core.share_sessions import SessionCache
from sharebroker_server.gateway.unread_messages import UnreadMessages
from sharebroker_server.routing.router import Router
from sharebroker_server.security.authorizer import ALLOW_ALL, Authorizer, Rechecks
from sharebroker_server.telemetry.metrics import Histogram

CLOSE_TIMEOUT: Final = 10.0
"""Limit of the time in which leaders complete pending acknowledgements after a client's last message."""


T = TypeVar("T")

_EARLY: Final = 0.001
"""Seconds by which a timer may fire early."""


_RESERVE: Final = 0.1
"""Seconds, at most, by which a call ends before its caller's deadline."""


class FetchCounts:
    """ShareFetch requests that reach a handler; the response cache answers idle Kafka clients without one.

    `seconds` is the time of fetches that returned records.
    """

    __slots__ = ("expired", "in_flight", "seconds")

    def __init__(self) -> None:
        self.in_flight = 0
        self.expired = 0
        self.seconds = Histogram()

    def completed(self, found: bool, seconds: float, wait: float) -> None:
        """Counts a fetch that took `seconds` of at most `wait` seconds."""
        if found:
            self.seconds.add_seconds(seconds)
        elif 0 < wait <= seconds + _EARLY:
            self.expired += 1


class Gateway:
    """Share sessions, calls to the other services, and background work.

    `config` is this process's static config; the catalog has the effective config. `authorizer` decides what
    the callers of both listeners may do; `rechecks` end what they may no longer do.
    """

    def __init__(
        self, router: Router, catalog: MetadataCache, config: BrokerConfig, authorizer: Authorizer = ALLOW_ALL
    ) -> None:
        self.router = router
        self.catalog = catalog
        self.config = config
        self.authorizer = authorizer
        self.rechecks = Rechecks()
        self.sessions = SessionCache(config.group_share_max_share_sessions, uuid4().hex)
        self.fetches = FetchCounts()
        self.quotas = ClientQuotas(catalog, config)
        self.unread = UnreadMessages(config.queued_max_request_bytes)
        self.turns = Turns()
        self.coordinators = Coordinators(router)
        self.leaders = Leaders(router)
        self._streams: dict[asyncio.Future[None], Callable[[BaseException], None]] = {}
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def unrestricted(self) -> bool:
        """Whether there is no access control."""
        return self.authorizer is ALLOW_ALL

    def topic(self, name: str, field: str = "topic") -> Topic:
        """The topic with this name. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.catalog.topic(name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"There is no topic '{name}'.",
                metadata={"topic": name, "field": field},
            )
        return topic

    @contextmanager
    def serving(self, fail: Callable[[BaseException], None]) -> Iterator[None]:
        """Registers a stream: `stop` calls `fail` with an error and waits until the stream has ended."""
        ended = asyncio.get_running_loop().create_future()
        self._streams[ended] = fail
        self._pending.add(ended)
        try:
            yield
        finally:
            del self._streams[ended]
            self._pending.discard(ended)
            ended.set_result(None)

    @property
    def streams(self) -> int:
        """The number of open client streams."""
        return len(self._streams)

    def background(self, work: Coroutine[None, None, None], event: str) -> None:
        """Runs `work`; logs `event` if it raises a KafkaError."""
        self.begin(logged(work, event))

    def begin(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Runs `work`; `stop` waits for it."""
        task = asyncio.create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task

    async def stop(self) -> None:
        """Ends the streams while leaders and coordinators still serve, then waits for background work."""
        stopping = KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "This gateway is stopping.", retry_after=0.1
        )
        for fail in list(self._streams.values()):
            fail(stopping)
        deadline = Deadline(CLOSE_TIMEOUT)
        while self._pending and deadline.remaining():
            await asyncio.wait(
                self._pending, timeout=deadline.remaining(), return_when=asyncio.FIRST_COMPLETED
            )


def deadline_of(context: Any) -> Deadline:
    """Returns a deadline slightly before the caller's: the caller receives our error before its own."""
    remaining = context.time_remaining()
    if remaining is None:
        return Deadline(REQUEST_TIMEOUT)
    return Deadline(remaining - min(_RESERVE, remaining / 10))
