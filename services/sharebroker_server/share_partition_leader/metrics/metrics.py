"""Metrics of share groups and led partitions (Kafka: ShareGroupMetrics, SharePartitionMetrics).

Counters have the labels group and topic; gauges also have the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from sharebroker_protocol.model import AckType
from sharebroker_server.share_partition_leader.leadership import Leadership, LedPartition
from sharebroker_server.telemetry.metrics import (
    OTHER,
    YIELD,
    Family,
    MetricKind,
    Sample,
    counter,
    gauge,
    seconds_of,
)

_ACK_TYPES: Final = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW)
_ARCHIVED: Final = {
    "rejected": "rejected",
    "attempts": "exhausted",
    "gap": "gaps",
    "aborted": "aborted",
    "expired": "expired",
}
"""The attribute of `Counts` for each reason."""

_COUNTERS: Final = (
    ("records_acquired", "acquired", "Records acquired by members."),
    ("records_redelivered", "redelivered", "Acquired records that were delivered before."),
    (
        "records_unseen",
        "unseen",
        "Acquired records that were returned before the application received them.",
    ),
    ("fetch_partitions", "fetches", "Share-partitions in fetch requests."),
    (
        "fetch_partitions_with_records",
        "fetches_with_records",
        "Share-partitions in fetch requests that returned records (Kafka: RequestTopicPartitionsFetchRatio).",
    ),
    ("acquisition_lock_timeouts", "lost", "Records whose acquisition lock timed out."),
    (
        "waiting_records_deleted",
        "deleted_waiting",
        "Records that were deleted from the log while they waited for the end of a delay.",
    ),
)
"""Name, attribute of `Counts`, and help."""

_GAUGES: Final = (
    ("in_flight_messages", "Offsets from start offset to end offset (Kafka: InFlightMessageCount)."),
    ("in_flight_batches", "Runs of records in one state (Kafka: InFlightBatchCount)."),
    ("in_flight_batch_messages", "Offsets in all runs (Kafka: InFlightBatchMessageCount)."),
    ("locked_messages", "Records with an acquisition lock."),
    ("ready_messages", "Records before the end offset that can be acquired now."),
    ("waiting_messages", "Records that wait for the end of their delay, or for their delivery time."),
    ("archiving_messages", "Failed records that wait until their dead letters are written."),
)
"""Name and help, in the order of `InFlight.sizes`."""

_LOG_GAUGES: Final = (
    ("start_offset", "log_start_offset", "First offset in the log."),
    ("end_offset", "records_end_offset", "Offset of the next record."),
    ("bytes", "size", "Bytes of records in the log."),
)
"""Name, attribute of `PartitionLog`, and help."""

_LOG_COUNTERS: Final = (
    ("scheduled_records", "scheduled", "Records that were appended with a delivery time to come."),
    ("recalled_records", "recalled", "Scheduled records that were recalled."),
)
"""Name, attribute of `PartitionLog`, and help."""

Rows = dict[tuple[str, ...], tuple[int, ...]]
"""The gauges of each share-partition, by its labels, in the order of `_GAUGES`."""


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
                ((*labels, "ack_type", kind.name.lower()), counts.acknowledged[kind])
                for labels, counts in counted
                for kind in _ACK_TYPES
            ),
        )
        yield counter(
            "sharebroker_share_group_records_archived_total",
            "Records that were archived without being accepted, by reason.",
            (
                ((*labels, "reason", reason), getattr(counts, attribute))
                for labels, counts in counted
                for reason, attribute in _ARCHIVED.items()
            ),
        )
        for name, attribute, help_ in _COUNTERS:
            samples = [(labels, getattr(counts, attribute)) for labels, counts in counted]
            yield counter(f"sharebroker_share_group_{name}_total", help_, samples)

    def _share_partitions(self) -> Iterator[Family]:
        """The first family computes the rows of all."""
        rows: Rows = {}
        for index, (name, help_) in enumerate(_GAUGES):
            name = f"sharebroker_share_partition_{name}"
            yield Family(name, MetricKind.GAUGE, help_, self._samples(rows, index))

    def _samples(self, rows: Rows, index: int) -> Iterator[Sample]:
        if not index:
            yield from self._compute(rows)
        for labels, row in rows.items():
            yield Sample(labels, row[index])

    def _compute(self, rows: Rows) -> Iterator[Sample]:
        most, other = self._most(), (*_labels(OTHER, OTHER), "partition", OTHER)
        for led in self._leadership.partitions():
            for loaded in led.loaded():
                labels = (*_labels(loaded.group_id, loaded.topic), "partition", str(loaded.partition))
                labels = labels if len(rows) < most else other
                sums = zip(loaded.core.in_flight.sizes(), rows.get(labels, (0,) * len(_GAUGES)), strict=True)
                rows[labels] = tuple(map(sum, sums))
                yield YIELD

    def _logs(self) -> Iterator[Family]:
        led = self._leadership.partitions()
        yield gauge("sharebroker_led_partitions", "Partitions led by this broker.", [((), len(led))])
        for name, attribute, help_ in _LOG_GAUGES:
            samples = [
                (("topic", item.topic.name, "partition", str(item.partition)), getattr(item.log, attribute))
                for item in led[: self._most()]
            ]
            yield gauge(f"sharebroker_log_{name}", help_, samples)
        yield from self._share_state(led[: self._most()])
        for name, attribute, help_ in _LOG_COUNTERS:
            samples = [
                (("topic", item.topic.name, "partition", str(item.partition)), getattr(item.log, attribute))
                for item in led[: self._most()]
                if not item.topic.upstream
            ]
            yield counter(f"sharebroker_log_{name}_total", help_, samples)

    def _share_state(self, led: Sequence[LedPartition]) -> Iterator[Family]:
        """The offsets of the share state that the topics' own logs have."""
        earliest: dict[tuple[str, ...], float] = {}
        newest: dict[tuple[str, ...], float] = {}
        for item in led:
            offsets = item.own_log.transactions.share.checkpoint_offsets() if item.topic.state_in_log else {}
            place = ("topic", item.topic.name, "partition", str(item.partition))
            if offsets:
                earliest[place] = min(offsets.values())
            for group_id, offset in islice(offsets.items(), max(0, self._most() - len(newest))):
                newest["group", group_id, *place] = offset
        yield gauge(
            "sharebroker_log_earliest_share_offset",
            "Lowest offset of the newest checkpoints of all share groups (Earliest Share Offset).",
            earliest.items(),
        )
        yield gauge(
            "sharebroker_share_partition_checkpoint_offset",
            "Offset of a share group's newest checkpoint in the log (Share Checkpoint Offset).",
            newest.items(),
        )


def _labels(group_id: str, topic: str) -> tuple[str, ...]:
    return ("group", group_id, "topic", topic)
