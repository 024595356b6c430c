"""A record's trace begins where it is made: a `create` span each, a `send` span for all of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.trace import Span, SpanKind

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing import names
from sharebroker_protocol.tracing.context import PARENT
from sharebroker_protocol.tracing.tracer import Tracer, context_of, link

if TYPE_CHECKING:
    from sharebroker_protocol.records.batch_builder import Header

_MOST_LINKS: Final = 128

_FULL: Final = 0.01
"""Seconds for which nobody asks again where there was no room: in so many there will be little."""


class Placed(Protocol):
    """A batch whose outcome is known; `sent_at` is in seconds since the Unix epoch."""

    topic: str
    partition: int
    base_offset: int
    sent_at: float
    error: KafkaError | None


class RecordTraces:
    """Begins the traces of records; none before `full_until`, in seconds since the Unix epoch."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.full_until = 0.0

    def left_out(self) -> int:
        """How many records in turn are not traced: who counts them need not `begin` any of them.

        None while a span is current; one that becomes current later is seen when they are counted.
        """
        return 0 if self._tracer.current() is not None else self._tracer.left_out()

    def begin(self, topic: str, headers: Iterable[Header], now: float) -> Span | None:
        """The span of a record that is traced from here on: its headers are to say so.

        None where there is no room, and for a record whose headers have a trace already.
        """
        if any(name == PARENT for name, _ in headers):
            return None
        parent = self._tracer.current()
        if not self._tracer.room(parent):
            self.full_until = now + _FULL
            return None
        about = names.about(names.CREATE, names.CREATE, topic)
        span = self._tracer.start(f"create {topic}", parent, SpanKind.PRODUCER, about)
        return span if span is not None and span.is_recording() else None

    def headers(self, span: Span) -> list[Header]:
        """What a record's headers say of its trace."""
        return [(name, value.encode()) for name, value in context_of(span).headers]

    def of_batch(self, batch: Placed) -> BatchTraces:
        """What is to be told when the batch's outcome is known."""
        return BatchTraces(self._tracer, batch)


class BatchTraces:
    """The traced records of one batch, by their place in it."""

    __slots__ = ("_batch", "_spans", "_tracer")

    def __init__(self, tracer: Tracer, batch: Placed) -> None:
        self._tracer = tracer
        self._batch = batch
        self._spans: list[tuple[int, Span]] = []

    def add(self, index: int, span: Span) -> None:
        """A record is traced."""
        self._spans.append((index, span))

    def settled(self) -> None:
        """The batch was appended, or given up."""
        spans, self._spans = self._spans, []
        if not spans:
            return
        batch = self._batch
        self._sent([span for _, span in spans])
        for index, span in spans:
            span.set_attribute(names.PARTITION, str(batch.partition))
            if batch.error is None:
                span.set_attribute(names.OFFSET, batch.base_offset + index)
            self._tracer.end(span, batch.error)

    def _sent(self, records: Sequence[Span]) -> None:
        """One span for all, in the trace of the first; it names the others, and they it."""
        batch = self._batch
        about = names.about(names.SEND, names.SEND, batch.topic, batch.partition)
        about[names.COUNT] = len(records)
        first, *others = map(context_of, records)
        sent = self._tracer.start(
            f"send {batch.topic}", first, SpanKind.CLIENT, about, others[:_MOST_LINKS], batch.sent_at or None
        )
        if sent is None:
            return
        named = context_of(sent)
        for record in records[1:]:
            link(record, named)
        self._tracer.end(sent, batch.error)
