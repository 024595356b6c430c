"""The calls of a share consumer as generators, shared by the asyncio and the blocking consumer.

Theory of operation
-------------------

Every call that can wait is a generator of type `Steps`. It yields a coroutine of the engine and receives
the `Turn` that the coroutine returned. The asyncio consumer awaits the coroutine in the running task; the
blocking consumer runs it on the client's event loop thread and waits for the result.

Everything between two yields runs in the application's thread or task: callbacks, deserialization, and the
rules of the acknowledgement mode (`PollBatch`). The order within a call matters:

1. `enter` rejects calls on a closed consumer and from within a callback.
2. `finish_previous` acknowledges the records of the last poll by default: it releases a record that failed
   to deserialize and, in implicit mode, accepts the rest.
3. The call waits. Callbacks in the returned turn run before its records are returned.

`_prefetched` is shared with the engine's thread. A record belongs to the side that pops it from the deque:
the application receives it, or the engine undoes its acquisition.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, TypeVar

from sharebroker.aio.consumer_engine import ConsumerEngine
from sharebroker.aio.delivery_queue import Callback, Turn
from sharebroker.client_errors import RecordDeserializationError
from sharebroker.consumer.accumulator import Pending
from sharebroker.consumer.config import AcknowledgementOutcome, ConsumerConfig, RecordResult
from sharebroker.tracing.application import processing
from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.record import Acknowledgement, AcknowledgeType, Record, spans

_ACCEPT: Final = AcknowledgeType.ACCEPT
_RENEW: Final = AcknowledgeType.RENEW
_SWEEP: Final = 1000


class PollBatch:
    """The records that the application holds: those of the last poll, or those of an iteration."""

    def __init__(self, explicit: bool) -> None:
        self._explicit = explicit
        self._records: list[Record] = []
        self._unacknowledged: list[Record] = []
        self._sweep_at = _SWEEP

    def replace(self, records: list[Record]) -> None:
        """Sets the records of a new poll; the earlier ones are finished."""
        self._records = records

    def add(self, record: Record) -> None:
        """Adds one record of an iteration; earlier ones may still be unacknowledged."""
        self._records.append(record)
        if len(self._records) >= self._sweep_at:
            self._records = self.pop_unacknowledged()
            self._sweep_at = 2 * len(self._records) + _SWEEP

    def pop_unacknowledged(self) -> list[Record]:
        """Removes all records; returns those held without a final acknowledgement."""
        records, self._records = self._records, []
        return [record for record in records if _is_unacknowledged(record)]

    def check_acknowledged(self) -> None:
        """Raises IllegalStateError in explicit mode if a record is neither acknowledged nor lost."""
        if not self._explicit:
            return
        self._unacknowledged = [
            record
            for record in self._records
            if (ack := record.acknowledgement) is None or ack.kind is _RENEW
        ]
        missing = [r for r in self._unacknowledged if r.acknowledgement is None and not r.lock_lost]
        if missing:
            raise IllegalStateError(
                f"{len(missing)} records are not acknowledged, the first is {missing[0]!r}"
            )

    def accept_remaining(self) -> None:
        """Accepts, in implicit mode, all records whose lock is not lost."""
        if self._explicit:
            return
        records, self._records = self._records, []
        if len(records) == 1 and not records[0].lock_lost:  # an iteration: coalesced with its neighbours
            records[0].acquisition.sink.queue(records[0], _ACCEPT)
            return
        if any(acquisition.lost for acquisition, _, _ in spans(records)):
            records = [record for record in records if not record.lock_lost]
        for acquisition, first, last in spans(records):
            acquisition.sink.queue_range(acquisition, first, last, _ACCEPT)

    @property
    def renewal_pending(self) -> bool:
        """Whether a renewal that `check_acknowledged` found has no outcome yet."""
        return any(
            ack is not None and ack.kind is _RENEW and not ack.done
            for ack in (record.acknowledgement for record in self._unacknowledged)
        )

    def pop_renewed(self) -> list[Record]:
        """Returns the records with a confirmed renewal; the application must acknowledge them again."""
        renewed = [
            record
            for record in self._unacknowledged
            if (ack := record.acknowledgement) is not None and ack.is_confirmed_renewal
        ]
        if renewed:
            self.replace(renewed)
            for record in renewed:
                record.acknowledgement = None
        return renewed


def _is_unacknowledged(record: Record) -> bool:
    ack = record.acknowledgement
    if ack is not None and ack.kind is not _RENEW and ack.error is None:
        return False
    return not record.lock_lost


T = TypeVar("T")
Steps = Generator[Coroutine[Any, Any, Turn], Turn, T]

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def checked_topics(topics: Iterable[str]) -> frozenset[str]:
    """Returns the topics as a set. Raises KafkaError INVALID_TOPIC_EXCEPTION."""
    requested = frozenset([topics] if isinstance(topics, str) else topics)
    for topic in requested:
        if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic!r} is not a legal topic name.")
    return requested


class ConsumerSteps:
    """The calls of one consumer. At most one thread or task uses it at a time."""

    def __init__(self, engine: ConsumerEngine, config: ConsumerConfig) -> None:
        self._engine = engine
        self._config = config
        self._poll_batch = PollBatch(config.share_acknowledgement_mode == "explicit")
        self._prefetched = engine.prefetched
        self._failed: Record | None = None  # the last record that failed to deserialize
        self._due: deque[Callback] = deque()
        self._in_callback = False
        self.closed = False
        """Whether `close` was called."""
        self.topics: frozenset[str] = frozenset()

    def enter(self) -> None:
        """Checks that a call is permitted. Raises IllegalStateError in a callback or after `close`."""
        if self._in_callback:
            raise IllegalStateError("a callback of the consumer must not call the consumer")
        if self.closed:
            raise IllegalStateError("the consumer is closed")

    def poll(self, timeout: float) -> Steps[list[Record]]:
        """Returns records within `timeout` seconds, or an empty list (Kafka: ShareConsumer.poll)."""
        self.enter()
        self._check_subscribed()
        self._poll_batch.check_acknowledged()
        self.finish_previous()
        deadline = clock.now() + timeout
        records = (yield from self._wait_for_renewed(deadline)) or (yield from self._wait_for_new(deadline))
        return list(records)  # a copy: the application may change its list

    def next_record(self) -> Record | None:
        """Returns the next record of an iteration, or None if `fetch` must be called first."""
        self.finish_previous()
        try:
            record = self._prefetched.popleft()
            while record.acquisition.lost and record.lock_lost:
                record = self._prefetched.popleft()
        except IndexError:
            return None
        self._deserialize(record)
        self._poll_batch.add(record)
        return record

    def fetch(self) -> Steps[bool]:
        """Waits without limit until `next_record` has records; returns False once the consumer is closed."""
        while not self.closed:
            self.enter()
            self._check_subscribed()
            turn = yield self._engine.next_turn(None, poll=False)
            self._prefetched.extend(turn.records)
            self._run_callbacks(turn.callbacks)
            if turn.records:
                return True
        return False

    def commit(self, timeout: float) -> Steps[list[RecordResult]]:
        """Waits for the outcomes of all acknowledgements since the last commit and returns them."""
        self.enter()
        self.finish_previous()
        pending = (yield self._engine.pending()).pending

        def all_confirmed() -> bool:
            while pending and pending[-1].done:
                pending.pop()
            return not pending

        yield from self._wait_until(all_confirmed, timeout)
        results: list[RecordResult] = []
        for outcome in self._engine.pop_outcomes():
            results += outcome.results()
        for ack in pending:
            results += _timed_out(ack)
        return results

    def unsubscribe(self, timeout: float) -> Steps[None]:
        """Waits for pending acknowledgements, releases held records and leaves the group."""
        self.enter()
        yield from self._leave(timeout)

    def close(self, timeout: float) -> Steps[None]:
        """Does the same as `unsubscribe` and closes the consumer. A second call has no effect."""
        if self.closed:
            return
        self.enter()
        try:
            yield from self._leave(timeout)
        finally:
            self.closed = True

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> Acknowledgement:
        """Acknowledges the record that failed to deserialize last.

        Raises IllegalStateError for any other record.
        """
        self.enter()
        record = self._failed
        if record is None or (record.topic, record.partition, record.offset) != (topic, partition, offset):
            raise IllegalStateError(
                f"{topic}-{partition}@{offset} is not the record that failed to deserialise"
            )
        self._failed = None
        return record.acquisition.sink.acknowledge(record, kind)

    def _check_subscribed(self) -> None:
        if not self.topics:
            raise IllegalStateError("the consumer is not subscribed to any topic")

    def finish_previous(self) -> None:
        """Gives the records of the last poll their default acknowledgement."""
        self._release_failed()
        self._poll_batch.accept_remaining()

    def _release_failed(self) -> None:
        if self._failed is not None:
            self._failed.acquisition.sink.queue(self._failed, AcknowledgeType.RELEASE)
            self._failed = None

    def _wait_for_renewed(self, deadline: float) -> Steps[list[Record]]:
        """Returns renewed records; they are returned before any new ones."""
        if self._poll_batch.renewal_pending:
            yield from self._wait_until(lambda: not self._poll_batch.renewal_pending, deadline - clock.now())
        return self._poll_batch.pop_renewed()

    def _wait_until(self, condition: Callable[[], bool], timeout: float) -> Steps[None]:
        """Waits until `condition` holds, at most `timeout` seconds, and runs callbacks meanwhile."""
        deadline = clock.now() + timeout
        while True:
            turn = yield self._engine.wait_until(condition, max(0.0, deadline - clock.now()))
            self._run_callbacks(turn.callbacks)
            if not turn.callbacks or clock.now() > deadline:
                return

    def _wait_for_new(self, deadline: float) -> Steps[list[Record]]:
        records = [record for record in pop_all(self._prefetched) if not record.lock_lost]
        while True:
            if records:
                return self._deserialize_all(records)
            turn = yield self._engine.next_turn(max(0.0, deadline - clock.now()), poll=True)
            records = turn.records
            self._run_callbacks(turn.callbacks)
            if not turn.records and not turn.callbacks:
                return []

    def _deserialize_all(self, records: list[Record]) -> list[Record]:
        """Returns the records before the first that fails to deserialize.

        If the first record fails, its error is raised; the others stay prefetched.
        """
        if self._config.deserializer is not None:
            for index, record in enumerate(records):
                try:
                    self._deserialize(record)
                except RecordDeserializationError:
                    self._prefetched.extendleft(reversed(records[index or 1 :]))
                    if index == 0:
                        raise
                    records = records[:index]
                    self._failed = None
                    break
        self._poll_batch.replace(records)
        return records

    def _deserialize(self, record: Record) -> None:
        """Sets `record.data`. On RecordDeserializationError the record waits for `acknowledge`."""
        deserialize = self._config.deserializer
        if deserialize is None:
            return
        try:
            record.data = deserialize(record)
        except Exception as failure:
            self._failed = record
            raise RecordDeserializationError(record.topic, record.partition, record.offset) from failure

    def _run_callbacks(self, callbacks: list[Callback]) -> None:
        """Runs callbacks in order. After one raises, the remaining ones run in the next call."""
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
        yield from self._wait_until(lambda: not self._engine.has_unconfirmed, timeout)
        self.topics = frozenset()
        unacknowledged = self._poll_batch.pop_unacknowledged()
        turn = yield self._engine.leave(unacknowledged, max(0.0, deadline - clock.now()))
        self._run_callbacks(turn.callbacks)


class ConsumerCalls:
    """The calls of a share consumer that do not wait, and the ones that a subclass drives (see `Steps`)."""

    def __init__(
        self, engine: ConsumerEngine, group_id: str, config: ConsumerConfig, topics: frozenset[str]
    ) -> None:
        self._config = config
        self._group_id = group_id
        self._engine = engine
        self._steps = ConsumerSteps(engine, config)
        self._steps.topics = topics

    @property
    def member_id(self) -> str:
        """The member's id; it does not change during the consumer's lifetime."""
        return self._engine.member_id

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._steps.topics

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """The duration of the group's acquisition locks; None before the server reported it."""
        timeout = self._engine.lock_timeout
        return None if timeout is None else round(timeout * 1000)

    def processing(self, record: Record) -> AbstractContextManager[None]:
        """Returns a context manager that traces the processing of a record.

        With OpenTelemetry set up, it starts a `process` span in the record's trace, makes it current, and
        records an exception raised inside it. Without, it does nothing.
        """
        return processing(record, self._group_id, self.member_id)

    def commit_async(self) -> None:
        """Accepts the records of the last poll in implicit mode, without waiting (Kafka: commitAsync).

        `acknowledgement_commit_callback` receives the outcomes. In explicit mode the acknowledgements are
        already being sent.
        """
        self._steps.enter()
        self._steps.finish_previous()

    def acknowledge(self, topic: str, partition: int, offset: int, kind: AcknowledgeType) -> Acknowledgement:
        """Acknowledges the record that RecordDeserializationError named; without it the record is released.

        Raises IllegalStateError for any other record: use the methods of the record instead.
        """
        return self._steps.acknowledge(topic, partition, offset, kind)

    def wakeup(self) -> None:
        """Makes the call that waits, or otherwise the next one, raise WakeupError.

        May be called from any thread or task, and from a callback.
        """
        self._engine.wake_up()


def pop_all(records: deque[Record]) -> list[Record]:
    """Removes and returns all records of a deque that another thread empties as well."""
    popped = []
    with suppress(IndexError):
        while True:
            popped.append(records.popleft())
    return popped


def _timed_out(ack: Pending) -> Iterable[RecordResult]:
    acquisition = ack.acquisition
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The acknowledgement is not confirmed yet.")
    return AcknowledgementOutcome(
        acquisition.topic, acquisition.partition, ack.unconfirmed_offsets, ack.kind, error
    ).results()
