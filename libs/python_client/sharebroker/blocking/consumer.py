"""The blocking share consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, TypeVar

from sharebroker.aio.connection import Connection
from sharebroker.aio.consumer_engine import ConsumerEngine
from sharebroker.blocking.loop_thread import LoopThread
from sharebroker.client_errors import warn_unclosed
from sharebroker.consumer.config import ConsumerConfig
from sharebroker.consumer.poll_batch import RecordResult
from sharebroker.consumer.steps import ConsumerSteps, Steps
from sharebroker.tracing.application import processing
from sharebroker_protocol.records.acknowledgement import Acknowledgement
from sharebroker_protocol.records.record import AcknowledgeType, Record

T = TypeVar("T")


class ShareConsumer:
    """A member of a share group, for one thread at a time; any number of threads may acknowledge records.

    `with ShareConsumer("127.0.0.1:9090", "group", ["topic"]) as consumer:` then `for record in consumer:`
    for records one by one, or `consumer.poll(timeout)` for lists with Kafka's rules. Errors that end the
    membership (GROUP_MAX_SIZE_REACHED, GROUP_AUTHORIZATION_FAILED, …) are raised as KafkaError by either.
    """

    def __init__(
        self, address: str, group_id: str, topics: Iterable[str] = (), config: ConsumerConfig | None = None
    ) -> None:
        """`address` is the gateway's host:port. Nothing is sent before the consumer is subscribed."""
        self._config = config or ConsumerConfig()
        self._group_id = group_id
        self._thread, self._connection = LoopThread.hosting(lambda: Connection(address))
        self._engine = self._thread.make(lambda: ConsumerEngine(self._connection, group_id, self._config))
        self._steps = ConsumerSteps(self._engine, self._config)
        self._first_topics = topics

    def __del__(self) -> None:
        if hasattr(self, "_steps") and not self._steps.closed:
            if self._engine.running:
                warn_unclosed(self)
            self._thread.stop()

    def __enter__(self) -> Self:
        if self._first_topics:
            self.subscribe(self._first_topics)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        """Records one by one, until `close` or `wakeup`. An iteration that was left can be taken up again."""
        while True:
            while (record := self._steps.take()) is not None:
                yield record
            if not self._walk(self._steps.fetch()):
                return

    def _walk(self, steps: Steps[T]) -> T:
        """Take the steps of a call: what waits runs on the client's thread, all else on this one."""
        try:
            waiting = next(steps)
            while True:
                waiting = steps.send(self._thread.call(waiting))
        except StopIteration as end:
            result: T = end.value
            return result

    @property
    def member_id(self) -> str:
        """The member's id, the same for the consumer's life."""
        return self._engine.member_id

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to."""
        return self._steps.topics

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long acquisition locks of the group last; None while the server has not said."""
        timeout = self._engine.lock_timeout
        return None if timeout is None else round(timeout * 1000)

    def processing(self, record: Record) -> AbstractContextManager[None]:
        """Around what is done with a record, where there are traces: a `process` span in its trace.

        The span is current inside; what is raised there stands in it, and goes on. Else this does nothing.
        """
        return processing(record, self._group_id, self.member_id)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Take records of these topics only; none: `unsubscribe`. Raises INVALID_TOPIC_EXCEPTION."""
        wanted = self._steps.check_topics(topics)
        if not wanted:
            self.unsubscribe()
            return
        self._thread.make(lambda: self._engine.subscribe(wanted))
        self._steps.topics = wanted

    def unsubscribe(self) -> None:
        """Leave the group: what was acknowledged is confirmed, the rest released."""
        self._walk(self._steps.unsubscribe(self._config.default_api_timeout_ms / 1000))

    def poll(self, timeout: float) -> list[Record]:
        """Records within `timeout` seconds, about `max_poll_records`; an empty list when there were none.

        Raises IllegalStateError without a subscription or, with explicit acknowledgement, while records of
        the last poll are unanswered; RecordDeserializationError; WakeupError; KafkaError.
        """
        return self._walk(self._steps.poll(timeout))

    def commit(self, timeout: float | None = None) -> list[RecordResult]:
        """The outcome of each record acknowledged since the last commit, as soon as all are known.

        What is not confirmed within `timeout` seconds (`default_api_timeout_ms`) has REQUEST_TIMED_OUT.
        """
        seconds = self._config.default_api_timeout_ms / 1000 if timeout is None else timeout
        return self._walk(self._steps.commit(seconds))

    def commit_async(self) -> None:
        """Accept what was handed out (implicit mode) without waiting; callbacks tell the outcome."""
        self._steps.commit_async()

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> Acknowledgement:
        """Decide on the record that RecordDeserializationError named; it is released otherwise."""
        return self._steps.acknowledge(topic, partition, offset, kind)

    def wakeup(self) -> None:
        """Make the waiting call, or else the next one, raise WakeupError. From any thread."""
        self._engine.wake_up()

    def close(self, timeout: float = 30.0) -> None:
        """Confirm what was acknowledged, release the rest, leave the group; at most `timeout` seconds."""
        if self._steps.closed:
            return
        try:
            self._walk(self._steps.close(timeout))
        finally:
            if self._steps.closed:
                self._thread.call(self._connection.close())
                self._thread.close()
