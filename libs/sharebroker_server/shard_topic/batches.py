"""Records in Kafka's form, and record batches of them. Pure.

A log may hold what its topic does not show: such offsets have no record, as those that compaction removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharebroker_server.record_log.core.batch import HEADER_SIZE, LEADER_EPOCH, header_of, seal

_ANY_SIZE: Final = 2**31 - 1


class KafkaRecord(NamedTuple):
    """What a consumer receives; without a value it is a tombstone. A time of -1 is none."""

    timestamp_ms: int
    key: bytes
    value: bytes | None

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key) + len(self.value or b"")


def record_batch(base_offset: int, end: int, records: Sequence[tuple[int, KafkaRecord]]) -> bytes:
    """One batch (magic 2, not compressed) of the offsets from `base_offset` to before `end`; those that are
    not among `records` have none. Clients go on at `end`, also where there are no records at all.
    """
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, _ANY_SIZE)
    times = [record.timestamp_ms for _, record in records] or [-1]
    for offset, (time, key, value) in records:
        builder.append(offset - base_offset, time + 1, key, value, [])  # to the builder -1 is no time at all
    plain = bytes(builder.build())
    header = header_of(plain)._replace(
        base_offset=base_offset,
        leader_epoch=LEADER_EPOCH,
        last_offset_delta=end - 1 - base_offset,
        base_timestamp=times[0],
        max_timestamp=max(times),
    )
    return seal(header, memoryview(plain)[HEADER_SIZE:])
