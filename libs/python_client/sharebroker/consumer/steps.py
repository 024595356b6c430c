"""The consumer's calls, step by step, for both its forms.

Each call is a generator: it yields what is to be waited for in the client's event loop and is sent the
`Turn` that came of it. The asyncio form awaits it in place, the blocking form has it run on the client's
thread; callbacks are made, records are decoded further and rules are kept by whoever drives the generator,
the application.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any, Final, TypeVar

from sharebroker.acks.accumulator import Pending
from sharebroker.aio.consumer_engine import ConsumerEngine
from sharebroker.aio.delivery_queue import Callback, Turn
from sharebroker.client_errors import RecordDeserializationError
from sharebroker.consumer.config import AcknowledgementOutcome, ConsumerConfig
from sharebroker.consumer.poll_batch import PollBatch, RecordResult
from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.acknowledgement import Acknowledgement
from sharebroker_protocol.records.record import AcknowledgeType, Record

T = TypeVar("T")
Steps = Generator[Coroutine[Any, Any, Turn], Turn, T]

_AS_RESULT: Final = partial(tuple.__new__, RecordResult)  # a third of the time of its constructor
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class ConsumerSteps:
    """One consumer as its application uses it: by one thread or task at a time."""

    def __init__(self, engine: ConsumerEngine, config: ConsumerConfig) -> None:
        self._engine = engine
        self._config = config
        self._poll_batch = PollBatch(config.share_acknowledgement_mode == "explicit")
        self._ahead = engine.ahead  # who pops a record from it has it: the application, or others again
        self._failed: Record | None = None  # could not be deserialised
        self._due: deque[Callback] = deque()
        self._in_callback = False
        self._closed = False
        self.topics: frozenset[str] = frozenset()

    def enter(self) -> None:
        """At the beginning of each call. IllegalStateError within a callback, or when closed."""
        if self._in_callback:
            raise IllegalStateError("a callback of the consumer must not call the consumer")
        if self._closed:
            raise IllegalStateError("the consumer is closed")

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def check_topics(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics as a set. Raises INVALID_TOPIC_EXCEPTION."""
        self.enter()
        wanted = frozenset([topics] if isinstance(topics, str) else topics)
        for topic in wanted:
            if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic!r} is no legal name of a topic.")
        return wanted

    def poll(self, timeout: float) -> Steps[list[Record]]:
        """Records within `timeout` seconds, or none (Kafka: ShareConsumer.poll)."""
        self.enter()
        self._check_subscribed()
        self._poll_batch.check_answered()
        self._before_next()
        deadline = clock.now() + timeout
        records = (yield from self._renewed(deadline)) or (yield from self._next(deadline))
        return list(
            records
        )  # the application's own: what it takes out of it is still the consumer's to look after

    def take(self) -> Record | None:
        """The next record of an iteration; None when more have to be fetched first."""
        self._before_next()
        try:
            record = self._ahead.popleft()
        except IndexError:
            return None
        self._deserialize(record)
        self._poll_batch.add(record)
        return record

    def fetch(self) -> Steps[bool]:
        """Wait until there are records to `take`, however long it takes; False when closed."""
        while not self._closed:
            self.enter()
            self._check_subscribed()
            turn = yield self._engine.advance(None, poll=False)
            self._ahead.extend(turn.records)
            self._perform(turn.callbacks)
            if turn.records:
                return True
        return False

    def commit(self, timeout: float) -> Steps[list[RecordResult]]:
        """Wait for the outcomes of all that was acknowledged since the last commit."""
        self.enter()
        self._before_next()
        pending = (yield self._engine.pending()).pending

        def all_known() -> bool:
            while pending and pending[-1].done:
                pending.pop()
            return not pending

        yield from self._until(all_known, timeout)
        results: list[RecordResult] = []
        for outcome in self._engine.take_outcomes():
            results += _results(outcome)
        for said in pending:
            results += _unknown(said)
        return results

    def commit_async(self) -> None:
        """In implicit mode: accept what was handed out, without waiting. Else it is on its way already."""
        self.enter()
        self._before_next()

    def unsubscribe(self, timeout: float) -> Steps[None]:
        """Confirm what was acknowledged, release the rest, leave the group."""
        self.enter()
        yield from self._leave(timeout)

    def close(self, timeout: float) -> Steps[None]:
        """As `unsubscribe`, for good. Closing again does nothing."""
        if self._closed:
            return
        self.enter()
        try:
            yield from self._leave(timeout)
        finally:
            self._closed = True

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> Acknowledgement:
        """Decide on the record whose deserialisation failed last. IllegalStateError for any other."""
        self.enter()
        record = self._failed
        if record is None or (record.topic, record.partition, record.offset) != (topic, partition, offset):
            raise IllegalStateError(
                f"{topic}-{partition}@{offset} is not the record that failed to deserialise"
            )
        self._failed = None
        return record.acquisition.sink.acknowledge(record, kind)

    # Parts

    def _check_subscribed(self) -> None:
        if not self.topics:
            raise IllegalStateError("the consumer is not subscribed to any topic")

    def _before_next(self) -> None:
        """What was handed out before gets its default answer."""
        self._release_failed()
        self._poll_batch.accept_rest()

    def _release_failed(self) -> None:
        if self._failed is not None:
            self._failed.acquisition.sink.decide(self._failed, AcknowledgeType.RELEASE)
            self._failed = None

    def _renewed(self, deadline: float) -> Steps[list[Record]]:
        """Records that were renewed come again before any new ones."""
        if self._poll_batch.renewing:
            yield from self._until(lambda: not self._poll_batch.renewing, deadline - clock.now())
        return self._poll_batch.take_renewed()

    def _until(self, condition: Callable[[], bool], timeout: float) -> Steps[None]:
        """Wait until `condition` holds, at most `timeout` seconds, doing the duties that come up."""
        deadline = clock.now() + timeout
        while True:
            turn = yield self._engine.until(condition, max(0.0, deadline - clock.now()))
            self._perform(turn.callbacks)
            if not turn.callbacks or clock.now() > deadline:
                return

    def _next(self, deadline: float) -> Steps[list[Record]]:
        records = drained(self._ahead)
        while True:
            if records:
                return self._present(records)
            turn = yield self._engine.advance(max(0.0, deadline - clock.now()), poll=True)
            records = turn.records
            self._perform(turn.callbacks)
            if not turn.records and not turn.callbacks:
                return []

    def _present(self, records: list[Record]) -> list[Record]:
        """What to hand out: all up to a record that cannot be deserialised; that one is raised when first."""
        if self._config.deserializer is not None:
            for index, record in enumerate(records):
                try:
                    self._deserialize(record)
                except RecordDeserializationError:
                    self._ahead.extendleft(reversed(records[index or 1 :]))
                    if index == 0:
                        raise
                    records = records[:index]
                    self._failed = None
                    break
        self._poll_batch.give(records)
        return records

    def _deserialize(self, record: Record) -> None:
        """Raises RecordDeserializationError; the record then waits for the application's decision."""
        deserialize = self._config.deserializer
        if deserialize is None:
            return
        try:
            record.data = deserialize(record)
        except Exception as failure:
            self._failed = record
            raise RecordDeserializationError(record.topic, record.partition, record.offset) from failure

    def _perform(self, callbacks: list[Callback]) -> None:
        """Make the calls that are due. One that raises does not keep the later ones from the next call."""
        self._due.extend(callbacks)
        while self._due:
            self._in_callback = True
            try:
                self._due.popleft()()
            finally:
                self._in_callback = False

    def _leave(self, timeout: float) -> Steps[None]:
        self._release_failed()
        deadline = clock.now() + timeout
        yield from self._until(lambda: not self._engine.unsettled, timeout)
        self.topics = frozenset()
        still_open = self._poll_batch.remove_open()
        turn = yield self._engine.leave(still_open, max(0.0, deadline - clock.now()))
        self._perform(turn.callbacks)


def drained(records: deque[Record]) -> list[Record]:
    """All that is in a queue which others empty, too."""
    taken = []
    with suppress(IndexError):
        while True:
            taken.append(records.popleft())
    return taken


def _results(outcome: AcknowledgementOutcome) -> Iterable[RecordResult]:
    topic, partition, offsets, kind, error = outcome
    fields = zip(repeat(topic), repeat(partition), offsets, repeat(kind), repeat(error), strict=False)
    return map(_AS_RESULT, fields)


def _unknown(said: Pending) -> Iterable[RecordResult]:
    of = said.acquisition
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The acknowledgement is not confirmed yet.")
    return _results(AcknowledgementOutcome(of.topic, of.partition, said.unanswered, said.kind, error))
