"""The benchmark's figures, each with its unit and, if it has one, its aim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

Figures = Mapping[str, float]
"""The values of one run by the keys of their figures."""

Unit = Literal["records/s", "ms", "us", "x"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table. `aim` is a minimum for rates and ratios, and a maximum for times."""

    key: str
    label: str
    unit: Unit
    aim: float | None = None

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is the better one."""
        return self.unit in ("records/s", "x")

    def met(self, value: float) -> bool | None:
        """Whether `value` reaches the aim; None without an aim."""
        if self.aim is None:
            return None
        return value >= self.aim if self.more_is_better else value <= self.aim


@dataclass(frozen=True, slots=True)
class Case:
    """Figures that are measured together. Without I/O the durability makes no difference."""

    title: str
    figures: tuple[Figure, ...]
    does_io: bool = True


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quotient of two figures of the same run; the divisor is the greatest of `over`."""

    key: str
    of: str
    over: tuple[str, ...]


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the value below which `share` (0 to 1) of `values` lie; 0 when there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def derived(figures: Figures, waits_for_disk: bool) -> dict[str, float]:
    """Returns the figures of one run with the figures that are derived from them."""
    full = dict(figures)
    for ratio in RATIOS:
        over = [figures[key] for key in ratio.over if key in figures]
        if ratio.of in figures and over:
            full[ratio.key] = figures[ratio.of] / max(over)
    # with everysec no reply waits for the disk, so nothing is subtracted
    fsync = figures.get("fsync.p50", 0.0) if waits_for_disk else 0.0
    for case in ("each", "paced", "waiting"):
        if f"{case}.ack_p99" in figures:
            full[f"above_fsync.{case}"] = max(0.0, figures[f"{case}.ack_p99"] - fsync)
    return full


def medians(runs: Sequence[Figures]) -> dict[str, float]:
    """Returns the median of each figure over the runs that have it."""
    keys = dict.fromkeys(key for run in runs for key in run)
    return {key: median(run[key] for run in runs if key in run) for key in keys}


RATIOS: Final = (
    Ratio("each.ratio", "each.rate", ("raw.each.1", "raw.each.8")),
    Ratio("range.ratio", "range.rate", ("raw.range.1", "raw.range.8")),
    Ratio("waiting.ratio", "waiting.rate", ("raw.waiting.1", "raw.waiting.8")),
    Ratio("each.ratio_processes", "each.rate", ("raw.each.8p",)),
    Ratio("range.ratio_processes", "range.rate", ("raw.range.8p",)),
    Ratio("waiting.ratio_processes", "waiting.rate", ("raw.waiting.8p",)),
    Ratio("partitions.ratio", "partitions.1000", ("partitions.1",)),
)

_EACH = "XREADGROUP COUNT 100, an XACK a record, pipelined"
_RANGE = "XREADGROUP COUNT 100, one XACK for the 100"
_WAITING = "XREADGROUP COUNT 1, XACK, next"

CASES: Final = (
    Case(
        "0  The disk",
        (
            Figure("fsync.p50", "append 4 KB and fdatasync, p50", "ms"),
            Figure("fsync.p99", "the same, p99", "ms"),
        ),
    ),
    Case(
        "1  Raw Redis by redis-py",
        (
            Figure("raw.each.1", f"{_EACH}: 1 worker", "records/s"),
            Figure("raw.each.8", f"{_EACH}: 8 workers, one process", "records/s"),
            Figure("raw.each.8p", f"{_EACH}: 8 processes", "records/s"),
            Figure("raw.range.1", f"{_RANGE}: 1 worker", "records/s"),
            Figure("raw.range.8", f"{_RANGE}: 8 workers, one process", "records/s"),
            Figure("raw.range.8p", f"{_RANGE}: 8 processes", "records/s"),
            Figure("raw.waiting.1", f"{_WAITING}: 1 worker", "records/s"),
            Figure("raw.waiting.8", f"{_WAITING}: 8 workers, one process", "records/s"),
            Figure("raw.waiting.8p", f"{_WAITING}: 8 processes", "records/s"),
        ),
    ),
    Case(
        "2  Publish in batches",
        (
            Figure(
                "publish.rate", "one Producer, linger and batches at their defaults", "records/s", 300_000
            ),
            Figure("publish.ack_p99", "from send to confirmed, p99", "ms"),
            Figure("publish.client_cpu", "CPU of the client, a record", "us"),
            Figure("publish.server_cpu", "CPU of server and Valkey, a record", "us"),
        ),
    ),
    Case(
        "3  Every record acknowledged by its own call, each result confirmed; one stream",
        (
            Figure("each.rate", "confirmed", "records/s", 100_000),
            Figure("each.ack_p50", "from accept() to its result, p50", "ms"),
            Figure("each.ack_p99", "the same, p99", "ms"),
            Figure("each.client_cpu", "CPU of the client, a record", "us"),
            Figure("each.server_cpu", "CPU of server and Valkey, a record", "us"),
            Figure("each.ratio", "to raw Redis, one client process each", "x", 2.0),
            Figure("each.ratio_processes", "to raw Redis, 8 client processes", "x"),
        ),
    ),
    Case(
        "4  Acknowledged by range: a whole poll committed at once",
        (
            Figure("range.rate", "confirmed", "records/s", 300_000),
            Figure("range.ack_p50", "commit of a poll, p50", "ms"),
            Figure("range.ack_p99", "the same, p99", "ms"),
            Figure("range.client_cpu", "CPU of the client, a record", "us"),
            Figure("range.server_cpu", "CPU of server and Valkey, a record", "us"),
            Figure("range.ratio", "to raw Redis, one client process each", "x", 2.0),
            Figure("range.ratio_processes", "to raw Redis, 8 client processes", "x"),
        ),
    ),
    Case(
        "5  32 workers, each waits for its result before it reads the next record",
        (
            Figure("waiting.rate", "confirmed, all workers", "records/s", 16_000),
            Figure("waiting.ack_p50", "from accept() to its result, p50", "ms"),
            Figure("waiting.ack_p99", "the same, p99", "ms"),
            Figure("waiting.client_cpu", "CPU of the client, a record", "us"),
            Figure("waiting.server_cpu", "CPU of server and Valkey, a record", "us"),
            Figure("waiting.ratio", "to raw Redis, one client process each", "x", 2.0),
            Figure("waiting.ratio_processes", "to raw Redis, 8 client processes", "x"),
        ),
    ),
    Case(
        "6  Share-partitions: the same records spread over more of them",
        (
            Figure("partitions.1", "1 share-partition", "records/s"),
            Figure("partitions.1000", "1,000 share-partitions", "records/s"),
            Figure("partitions.ratio", "1,000 to 1", "x", 0.8),
        ),
    ),
    Case(
        "7  From subscribing to the first record, new group",
        (
            Figure("first.p50", "connect, subscribe, first record, p50", "ms", 200),
            Figure("first.max", "the same, slowest", "ms"),
        ),
    ),
    Case(
        "8  Pure logic",
        (
            Figure("logic.fetch_ack_500", "leader: fetch and acknowledge 500 records in runs", "us", 300),
            Figure("logic.fetch_ack_500_singly", "leader: the same, acknowledged one by one", "us"),
            Figure("logic.fetch_ack_500_held", "leader: the same, beside a held record", "us"),
            Figure("logic.write", "share coordinator: decide and apply of one write", "us"),
            Figure("logic.write_bytes", "share coordinator: the same and its record's bytes", "us"),
        ),
        does_io=False,
    ),
    Case(
        "9  Acknowledgement above the fsync",
        (
            Figure("above_fsync.paced", "case 3 at 50,000 records/s, p99 less a median fsync", "ms", 5.0),
            Figure("above_fsync.each", "case 3 as fast as can be, p99 less a median fsync", "ms", 5.0),
            Figure("above_fsync.waiting", "case 5, p99 less a median fsync", "ms", 5.0),
        ),
    ),
)
