"""What every handler of this process shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import Topic
from sharebroker_server.cluster.router import Router
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.clients.coordinators import Coordinators
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.clients.leaders import Leaders
from sharebroker_server.gateway.config import CLOSE_TIMEOUT
from sharebroker_server.gateway.core.sessions import SessionCache
from sharebroker_server.gateway.fetch_metrics import FetchCounts

_log = structlog.get_logger()

T = TypeVar("T")


class Gateway:
    """Sessions, the ways to the other services, and work that nobody waits for.

    `config` is what this process was started with; what is in force now stands in the catalog.
    """

    def __init__(self, router: Router, catalog: MetadataCache, config: BrokerConfig) -> None:
        self.router = router
        self.catalog = catalog
        self.config = config
        self.sessions = SessionCache(config.group_share_max_share_sessions, uuid4().hex)
        self.fetches = FetchCounts()
        self.coordinators = Coordinators(router)
        self.leaders = Leaders(router)
        self._streams: dict[asyncio.Future[None], Callable[[BaseException], None]] = {}
        self._pending: set[asyncio.Future[Any]] = set()

    def topic(self, name: str, field: str = "topic") -> Topic:
        """The topic of this name. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.catalog.topic(name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"There is no topic '{name}'.",
                metadata={"topic": name, "field": field},
            )
        return topic

    def partition_error(self, topic_id: str, partition: int) -> ErrorCode:
        """NONE where the partition exists, else what Kafka answers for it."""
        topic = self.catalog.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.NONE if 0 <= partition < topic.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def lock_timeout_ms(self, group_id: str) -> int:
        """How long an acquisition lock of the group lasts."""
        return self.catalog.group_config(group_id).share_record_lock_duration_ms

    @contextmanager
    def serving(self, cut: Callable[[BaseException], None]) -> Iterator[None]:
        """Marks a stream as running: `stop` cuts it with an error, and waits until it has taken its leave."""
        ended = asyncio.get_running_loop().create_future()
        self._streams[ended] = cut
        self._pending.add(ended)
        try:
            yield
        finally:
            del self._streams[ended]
            self._pending.discard(ended)
            ended.set_result(None)

    @property
    def streams(self) -> int:
        """Streams of clients that are open."""
        return len(self._streams)

    def background(self, work: Coroutine[None, None, None], what: str) -> None:
        """Run `work`; a refusal of another service is logged only."""
        self.begin(_logged(work, what))

    def begin(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        """Run `work`; `stop` waits for it, whoever else does or does not."""
        task = asyncio.create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task

    async def stop(self) -> None:
        """End the streams, while leaders and coordinators still hear of it, and what else is under way."""
        stopping = KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "This gateway is stopping.", retry_after=0.1
        )
        for cut in list(self._streams.values()):
            cut(stopping)
        deadline = Deadline(CLOSE_TIMEOUT)
        while self._pending and deadline.left():
            await asyncio.wait(self._pending, timeout=deadline.left(), return_when=asyncio.FIRST_COMPLETED)


async def _logged(work: Coroutine[None, None, None], what: str) -> None:
    try:
        await work
    except KafkaError as error:
        _log.info(what, error=str(error))
