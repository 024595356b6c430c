"""An idempotent producer that acts on errors as librdkafka does, without I/O.

Up to five batches per partition are in flight. After a retriable error, or without a response, the producer
waits until no batch of that partition is in flight, and then sends all unacknowledged ones again, with the
same sequences. After OUT_OF_ORDER_SEQUENCE_NUMBER it waits until no batch at all is in flight, increases its
epoch, and sends all unacknowledged batches of all partitions under the new epoch. A success also acknowledges
earlier batches of the partition. (Source: `rd_kafka_handle_Produce_error`,
`rd_kafka_handle_idempotent_Produce_error` and `rd_kafka_handle_idempotent_Produce_success`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharebroker_protocol.errors import ErrorCode

MAX_IN_FLIGHT: Final = 5

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The codes after which librdkafka sends a batch again (`rd_kafka_err_action`)."""


class Request(NamedTuple):
    """One batch on its way to a partition."""

    partition: int
    epoch: int
    sequence: int
    values: tuple[str, ...]


@dataclass(slots=True)
class _Partition:
    """The unacknowledged batches of a partition, oldest first; the first `sent` of them were sent."""

    batches: list[tuple[str, ...]] = field(default_factory=list)
    first_sequence: int = 0
    sent: int = 0
    in_flight: int = 0
    draining: bool = False

    def to_send(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yields the sequence and the values of each batch that may be sent, and counts it as sent."""
        if self.draining and not self.in_flight:
            self.draining, self.sent = False, 0
        while not self.draining and self.sent < len(self.batches) and self.in_flight < MAX_IN_FLIGHT:
            sequence = self.first_sequence + sum(map(len, self.batches[: self.sent]))
            self.sent += 1
            self.in_flight += 1
            yield sequence, self.batches[self.sent - 1]


class IdempotentProducer:
    """The state of a producer with `producer_id`: give it batches, send its requests, report their results.

    `acknowledged` holds the values of acknowledged records per partition, in order. `fatal` is the error
    after which librdkafka refuses to continue. `bumps` counts the increases of the epoch.
    """

    def __init__(self, producer_id: int, partitions: int) -> None:
        self.producer_id = producer_id
        self.acknowledged: list[list[str]] = [[] for _ in range(partitions)]
        self.fatal = ErrorCode.NONE
        self.bumps = 0
        self._partitions = [_Partition() for _ in range(partitions)]
        self._bumping = False

    def add(self, partition: int, values: Iterable[str]) -> None:
        """Adds a batch of records."""
        self._partitions[partition].batches.append(tuple(values))

    @property
    def done(self) -> bool:
        """Whether every record is acknowledged."""
        return not any(part.batches or part.in_flight for part in self._partitions)

    def to_send(self) -> list[Request]:
        """Returns the requests to send now; those of a partition are in order."""
        if self._bumping and not any(part.in_flight for part in self._partitions):
            self._bumping = False
            self.bumps += 1
            for part in self._partitions:
                part.first_sequence, part.sent, part.draining = 0, 0, False
        if self._bumping or self.fatal:
            return []
        return [
            Request(number, self.bumps, sequence, values)
            for number, part in enumerate(self._partitions)
            for sequence, values in part.to_send()
        ]

    def completed(self, request: Request, code: ErrorCode | None) -> None:
        """Processes the result of a request; None if there was no response."""
        part = self._partitions[request.partition]
        part.in_flight -= 1
        position = request.sequence - part.first_sequence
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._acknowledge(request, part)
        elif position < 0:
            return  # acknowledged by the success of a later batch
        elif code is None or code in _RETRIABLE:
            part.draining = True
        elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and position > 0:
            self._bumping = True
        else:
            self.fatal = code

    def _acknowledge(self, request: Request, part: _Partition) -> None:
        while part.batches and part.first_sequence <= request.sequence:
            batch = part.batches.pop(0)
            part.first_sequence += len(batch)
            part.sent = max(part.sent - 1, 0)
            self.acknowledged[request.partition] += batch


def encoded(producer_id: int, request: Request) -> bytes:
    """Returns the record batch of a request."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=producer_id,
        producer_epoch=request.epoch,
        base_sequence=request.sequence,
        batch_size=1 << 20,
    )
    for number, value in enumerate(request.values):
        builder.append(number, 1000 + number, None, value.encode(), [])
    return bytes(builder.build())


def values_of(batches: Iterable[bytes]) -> Sequence[str]:
    """Returns the values of the records of uncompressed batches, in order."""
    return [
        (record.value or b"").decode() for data in batches for record in DefaultRecordBatch(bytearray(data))
    ]
