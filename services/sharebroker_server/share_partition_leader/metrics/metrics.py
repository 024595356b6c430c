"""What leaders tell of groups and their records, under names like Kafka's.

There they are ShareGroupMetrics and SharePartitionMetrics. Counters are told by group and topic, what is
now also by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from sharebroker_protocol.model import AckType
from sharebroker_server.share_partition_leader.core.counts import Counts
from sharebroker_server.share_partition_leader.core.partition import SharePartition
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership
from sharebroker_server.telemetry.metrics import OTHER, TURN, Family, Kind, Sample, counter, gauge, seconds_of

_SAID: Final = {
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
    ("records_acquired", "Records handed out to members.", lambda counts: counts.acquired),
    ("records_redelivered", "Of those, not for the first time.", lambda counts: counts.redelivered),
    ("records_unseen", "Records given back that no member had looked at.", lambda counts: counts.unseen),
    ("fetch_partitions", "Share-partitions that fetches asked.", lambda counts: counts.fetches),
    (
        "fetch_partitions_with_records",
        "Of those, that gave records (Kafka: RequestTopicPartitionsFetchRatio, of the two).",
        lambda counts: counts.fetches_with_records,
    ),
    ("acquisition_lock_timeouts", "Records whose lock ran out.", lambda counts: counts.lost),
)
_GAUGES: Final = (
    (
        "in_flight_messages",
        "Offsets from the start offset to the last acquired (Kafka: InFlightMessageCount).",
    ),
    ("in_flight_batches", "Runs of records in one state (Kafka: InFlightBatchCount)."),
    (
        "in_flight_batch_messages",
        "Offsets in these runs together (Kafka: InFlightBatchMessageCount, of one).",
    ),
    ("locked_messages", "Records that are locked."),
)


class Row(NamedTuple):
    """A share-partition as it is now, in the order of `_GAUGES`."""

    in_flight: float = 0
    runs: float = 0
    batched: float = 0
    locked: float = 0

    def with_(self, other: Row) -> Row:
        """Of two together."""
        return Row(*map(sum, zip(self, other, strict=True)))


class LeaderMetrics:
    """Reads a leadership. `most` is how many share-partitions, and partitions, are told by themselves."""

    def __init__(self, leadership: Leadership, most: Callable[[], int]) -> None:
        self._leadership = leadership
        self._most = most

    def families(self) -> Iterable[Family]:
        """See Collector."""
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
            "Records by what members said of them (Kafka: RecordAcknowledgementsPerSec).",
            (
                ((*labels, "ack_type", name), counts.acknowledged[kind])
                for labels, counts in counted
                for kind, name in _SAID.items()
            ),
        )
        yield counter(
            "sharebroker_share_group_records_archived_total",
            "Records that no member will be given again though none accepted them, by reason.",
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
        """The first family works out the rows of all."""
        rows: dict[tuple[str, ...], Row] = {}
        for index, (name, help_) in enumerate(_GAUGES):
            name = f"sharebroker_share_partition_{name}"
            yield Family(name, Kind.GAUGE, help_, self._told(rows, index))

    def _told(self, rows: dict[tuple[str, ...], Row], index: int) -> Iterator[Sample]:
        if not index:
            yield from self._work_out(rows)
        for labels, row in rows.items():
            yield Sample(labels, row[index])

    def _work_out(self, rows: dict[tuple[str, ...], Row]) -> Iterator[Sample]:
        most, rest = self._most(), (*_labels(OTHER, OTHER), "partition", OTHER)
        for led in self._leadership.partitions():
            for one in led.loaded():
                row = _row(one.core)
                labels = (*_labels(one.group_id, one.topic), "partition", str(one.partition))
                if len(rows) < most:
                    rows[labels] = row
                else:
                    rows[rest] = row.with_(rows.get(rest, Row()))
                yield TURN

    def _logs(self) -> Iterator[Family]:
        led = self._leadership.partitions()
        yield gauge("sharebroker_led_partitions", "Partitions that this process leads.", [((), len(led))])
        logs = [
            (("topic", one.topic.name, "partition", str(one.partition)), one.log)
            for one in led[: self._most()]
        ]
        yield gauge(
            "sharebroker_log_start_offset",
            "First offset that can be read.",
            ((labels, log.log_start_offset) for labels, log in logs),
        )
        yield gauge(
            "sharebroker_log_end_offset",
            "Offset that the next record gets.",
            ((labels, log.log_end_offset) for labels, log in logs),
        )
        yield gauge(
            "sharebroker_log_bytes", "Bytes of records.", ((labels, log.size) for labels, log in logs)
        )


def _labels(group_id: str, topic: str) -> tuple[str, ...]:
    return ("group", group_id, "topic", topic)


def _row(core: SharePartition) -> Row:
    return Row(*core.sizes())
