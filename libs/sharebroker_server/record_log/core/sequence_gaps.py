"""The gaps in the sequences of a partition's producers.

Theory of operation
-------------------

An idempotent producer sends up to five batches at once. If one of them fails, those behind it arrive with a
gap before them. The producer then sends the failed batch again, and after it the others, with the same
sequences.

Kafka rejects a batch behind a gap with OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka then takes a new producer
epoch, and sends every unacknowledged batch of *all* partitions again under it. If a batch of another
partition was written, and only its response was lost, it is stored a second time: a partition recognises a
repeated batch by its epoch.

Here a batch behind a gap is rejected with KAFKA_STORAGE_ERROR first, after which every client sends the same
batches again. Once the gap has lasted `GAP_TIMEOUT_MS`, `check_batch` decides as Kafka does.

The rule does not ask why the missing batch failed, because the reason may lie elsewhere: in another process,
in a connection, in a former leader. An unknown producer has a gap if its first batch does not have sequence
0. Kafka accepts such a batch; librdkafka then counts the missing one as stored, and its records are lost.
"""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import BatchHeader
from sharebroker_server.record_log.core.producers import ProducerState, skips_sequences

GAP_TIMEOUT_MS: Final = 10_000
"""Milliseconds in which a producer is expected to send the missing batch again."""

MAX_GAPS: Final = 1000
"""The most gaps that a partition stores; each further one replaces the oldest."""

_RETRY_AFTER: Final = 0.05


class SequenceGaps:
    """The producers whose newest batch left a gap, and since when.

    The gaps are not part of the durable state: a new leader gives each one the whole time again.
    """

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, int]] = {}

    def check(self, state: ProducerState | None, header: BatchHeader, now_ms: int) -> None:
        """Rejects a batch that leaves a gap, as long as the missing one may still be sent again.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if not skips_sequences(state, header):
            self._since.pop(header.producer_id, None)
        elif now_ms - self._begin(header, now_ms) < GAP_TIMEOUT_MS:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Producer {header.producer_id} (epoch {header.producer_epoch}) sent sequence "
                f"{header.base_sequence}; an earlier batch is missing and must be sent again first.",
                retry_after=_RETRY_AFTER,
            )

    def restart(self) -> None:
        """Gives every gap the whole time again: the missing batch may have failed once more."""
        self._since.clear()

    def _begin(self, header: BatchHeader, now_ms: int) -> int:
        """Returns when the gap was first detected, in ms; stores it if it is new."""
        epoch, since = self._since.get(header.producer_id, (-1, now_ms))
        if epoch != header.producer_epoch or since > now_ms:  # the clock may have been set back
            since = now_ms
            if header.producer_id not in self._since and len(self._since) >= MAX_GAPS:
                del self._since[next(iter(self._since))]
            self._since[header.producer_id] = header.producer_epoch, since
        return since
