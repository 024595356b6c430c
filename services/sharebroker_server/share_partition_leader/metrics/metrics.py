"""Metrics of share groups and led partitions (Kafka: ShareGroupMetrics, SharePartitionMetrics).

Counters have the labels group and topic; gauges also have the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from sharebroker_protocol.model import AckType
from sharebroker_server.share_partition_leader.core.events import Counts
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.telemetry.metrics import (
    OTHER,
    YIELD,
    Family,
    Kind,
    Sample,
    counter,
    gauge,
    seconds_of,
)

_ACK_TYPES: Final = {
    AckType.ACCEPT: "accept",
    AckType.RELEASE: "release",
    AckType.REJECT: "reject",
    AckType.RENEW: "renew",
}
_ARCHIVED: Final[dict[str, Callable[[Counts], int]]] = {
    "rejected": lambda counts: counts.rejected,
    "attempts": lambda counts: counts.exhausted,
    "gap": lambda counts: counts.gaps,
    "aborted": lambda counts: counts.aborted,
}
_COUNTERS: Final[tuple[tuple[str, str, Callable[[Counts], int]], ...]] = (
    ("records_acquired", "Records acquired by members.", lambda counts: counts.acquired),
    (
        "records_redelivered",
        "Acquired records that were delivered before.",
        lambda counts: counts.redelivered,
    ),
    (
        "records_unseen",
        "Acquired records that were returned before the application received them.",
        lambda counts: counts.unseen,
    ),
    ("fetch_partitions", "Share-partitions in fetch requests.", lambda counts: counts.fetches),
    (
        "fetch_partitions_with_records",
        "Share-partitions in fetch requests that returned records (Kafka: RequestTopicPartitionsFetchRatio).",
        lambda counts: counts.fetches_with_records,
    ),
    ("acquisition_lock_timeouts", "Records whose acquisition lock timed out.", lambda counts: counts.lost),
)
_GAUGES: Final = (
    (
        "in_flight_messages",
        "Offsets from start offset to end offset (Kafka: InFlightMessageCount).",
    ),
    ("in_flight_batches", "Runs of records in one state (Kafka: InFlightBatchCount)."),
    (
        "in_flight_batch_messages",
        "Offsets in all runs (Kafka: InFlightBatchMessageCount).",
    ),
    ("locked_messages", "Records with an acquisition lock."),
)


class Row(NamedTuple):
    """The gauges of a share-partition, in the order of `_GAUGES`."""

    in_flight: float = 0
    runs: float = 0
    batched: float = 0
    locked: float = 0

    def with_(self, other: Row) -> Row:
        """Returns the sum of two rows."""
        return Row(*map(sum, zip(self, other, strict=True)))


class LeaderMetrics:
    """Collects metrics of a leadership. `most`: cardinality limit of share-partitions and partitions."""

    def __init__(self, leadership: Leadership, most: Callable[[], int]) -> None:
        self._leadership = leadership
        self._most = most

    def families(self) -> Iterable[Family]:
        """Returns the metric families; see Collector."""
        yield from self._counters()
        yield from self._share_partitions()
        yield from self._logs()
        yield seconds_of(
            "sharebroker_share_partition_load_seconds",
            "Time to load a share-partition's state (Kafka: PartitionLoadTimeMs).",
            "",
            {"": self._leadership.load_time},
        )

    def _counters(self) -> Iterator[Family]:
        counted = [(_labels(*pair), counts) for pair, counts in self._leadership.counters.all()]
        yield counter(
            "sharebroker_share_group_record_acknowledgements_total",
            "Acknowledged records by acknowledge type (Kafka: RecordAcknowledgementsPerSec).",
            (
                ((*labels, "ack_type", name), counts.acknowledged[kind])
                for labels, counts in counted
                for kind, name in _ACK_TYPES.items()
            ),
        )
        yield counter(
            "sharebroker_share_group_records_archived_total",
            "Records that were archived without being accepted, by reason.",
            (
                ((*labels, "reason", reason), read(counts))
                for labels, counts in counted
                for reason, read in _ARCHIVED.items()
            ),
        )
        for name, help_, read in _COUNTERS:
            yield counter(
                f"sharebroker_share_group_{name}_total",
                help_,
                ((labels, read(counts)) for labels, counts in counted),
            )

    def _share_partitions(self) -> Iterator[Family]:
        """The first family computes the rows of all."""
        rows: dict[tuple[str, ...], Row] = {}
        for index, (name, help_) in enumerate(_GAUGES):
            name = f"sharebroker_share_partition_{name}"
            yield Family(name, Kind.GAUGE, help_, self._samples(rows, index))

    def _samples(self, rows: dict[tuple[str, ...], Row], index: int) -> Iterator[Sample]:
        if not index:
            yield from self._compute(rows)
        for labels, row in rows.items():
            yield Sample(labels, row[index])

    def _compute(self, rows: dict[tuple[str, ...], Row]) -> Iterator[Sample]:
        most, other = self._most(), (*_labels(OTHER, OTHER), "partition", OTHER)
        for led in self._leadership.partitions():
            for one in led.loaded():
                row = _row(one.core)
                labels = (*_labels(one.group_id, one.topic), "partition", str(one.partition))
                if len(rows) < most:
                    rows[labels] = row
                else:
                    rows[other] = row.with_(rows.get(other, Row()))
                yield YIELD

    def _logs(self) -> Iterator[Family]:
        led = self._leadership.partitions()
        yield gauge("sharebroker_led_partitions", "Partitions led by this broker.", [((), len(led))])
        logs = [
            (("topic", one.topic.name, "partition", str(one.partition)), one.log)
            for one in led[: self._most()]
        ]
        yield gauge(
            "sharebroker_log_start_offset",
            "First offset in the log.",
            ((labels, log.log_start_offset) for labels, log in logs),
        )
        yield gauge(
            "sharebroker_log_end_offset",
            "Offset of the next record.",
            ((labels, log.log_end_offset) for labels, log in logs),
        )
        yield gauge(
            "sharebroker_log_bytes",
            "Bytes of records in the log.",
            ((labels, log.size) for labels, log in logs),
        )


def _labels(group_id: str, topic: str) -> tuple[str, ...]:
    return ("group", group_id, "topic", topic)


def _row(core: SharePartition) -> Row:
    return Row(*core.in_flight.sizes())
