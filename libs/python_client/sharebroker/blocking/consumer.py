"""The blocking share consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from typing_extensions import override

from sharebroker.aio.connection import Connection
from sharebroker.aio.consumer_engine import ConsumerEngine
from sharebroker.aio.steps import ConsumerCalls, Steps, checked_topics
from sharebroker.blocking.loop_thread import BlockingClient
from sharebroker.consumer.config import ConsumerConfig, RecordResult
from sharebroker_protocol.address import Address
from sharebroker_protocol.records.record import Record

T = TypeVar("T")


class ShareConsumer(ConsumerCalls, BlockingClient[ConsumerEngine]):
    """A member of a share group (Kafka: KafkaShareConsumer).

    Records are acknowledged one by one and may be shared with other members of the group:

        with ShareConsumer("127.0.0.1:9090", "group", ["topic"]) as consumer:
            for record in consumer:
                process(record.value)
                record.accept()

    `poll` returns lists of records instead, with Kafka's rules. One thread at a time may call the consumer;
    any number of threads may acknowledge records. Iterating and polling raise KafkaError for errors that end
    the membership, such as GROUP_MAX_SIZE_REACHED and GROUP_AUTHORIZATION_FAILED.
    """

    def __init__(
        self,
        address: str | Address,
        group_id: str,
        topics: Iterable[str] = (),
        config: ConsumerConfig | None = None,
    ) -> None:
        """Creates a consumer, and subscribes it to `topics` if there are any. It connects once subscribed.

        `address` is the gateway's `host:port` or another form that sharebroker_protocol.address describes.
        Without a `with` block the caller must call `close`. Raises KafkaError INVALID_CONFIG,
        INVALID_TOPIC_EXCEPTION.
        """
        subscribed = checked_topics(topics)
        config = config or ConsumerConfig()

        def start() -> ConsumerEngine:
            engine = ConsumerEngine(Connection(address, config.client_id), group_id, config)
            if subscribed:
                engine.subscribe(subscribed)
            return engine

        BlockingClient.__init__(self, start)
        ConsumerCalls.__init__(self, self._client, group_id, config, subscribed)

    @override
    def _in_use(self) -> bool:
        return self._engine.running

    def __iter__(self) -> Iterator[Record]:
        """Yields records one by one until the consumer is closed or `wakeup` is called.

        After a `break`, a new loop continues with the next record.
        """
        while True:
            while (record := self._steps.next_record()) is not None:
                yield record
            if not self._drive(self._steps.fetch()):
                return

    def _drive(self, steps: Steps[T]) -> T:
        """Runs the steps of a call: coroutines on the client's thread, the rest on this one."""
        try:
            waiting = next(steps)
            while True:
                waiting = steps.send(self._thread.call(waiting))
        except StopIteration as end:
            result: T = end.value
            return result

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribes to exactly these topics; an empty list unsubscribes.

        Replaces an earlier subscription. Raises KafkaError INVALID_TOPIC_EXCEPTION.
        """
        self._steps.enter()
        requested = checked_topics(topics)
        if not requested:
            self.unsubscribe()
            return
        self._thread.make(lambda: self._engine.subscribe(requested))
        self._steps.topics = requested

    def unsubscribe(self) -> None:
        """Leaves the group: confirms pending acknowledgements and releases the other held records."""
        self._drive(self._steps.unsubscribe(self._config.default_api_timeout_ms / 1000))

    def poll(self, timeout: float) -> list[Record]:
        """Returns records within `timeout` seconds, about `max_poll_records`, or an empty list.

        Raises IllegalStateError without a subscription, and in explicit mode while a record of the last poll
        is not acknowledged; RecordDeserializationError; WakeupError; KafkaError.
        """
        return self._drive(self._steps.poll(timeout))

    def commit(self, timeout: float | None = None) -> list[RecordResult]:
        """Returns the outcome of each record acknowledged since the last commit, once all are known.

        A record without an outcome after `timeout` seconds (default: `default_api_timeout_ms`) has the error
        REQUEST_TIMED_OUT. Kafka: commitSync.
        """
        seconds = self._config.default_api_timeout_ms / 1000 if timeout is None else timeout
        return self._drive(self._steps.commit(seconds))

    @override
    def close(self, timeout: float = 30.0) -> None:
        """Leaves the group within `timeout` seconds and closes the connection.

        Pending acknowledgements are confirmed, the other held records released. A second call has no effect.
        """
        if self._closed:
            return
        try:
            self._drive(self._steps.close(timeout))
        finally:
            self._closed = self._steps.closed
            if self._closed:
                self._thread.call(self._engine.connection.close())
                self._thread.close()
