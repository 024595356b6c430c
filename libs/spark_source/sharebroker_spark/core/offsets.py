"""The Spark offset: a session, the number of its batch, and what the batch is made of.

Spark keeps it in its checkpoint and gives it back as it is, also to another process: what is needed to read
the batch again, and to commit it, stands in it. Offsets are compared as text: the order of keys is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

VERSION: Final = 1

Partition = tuple[str, int]
"""A topic's name, and a partition of it."""


class Range(NamedTuple):
    """Offsets first..last of a topic's partition, and the number of this delivery of them."""

    topic: str
    partition: int
    first: int
    last: int
    delivery_count: int = 1

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A planned batch. Number 0 is before the first: it has no ranges.

    `deadline_ms` is when the first of its locks ran out when it was planned, since the Unix epoch.
    """

    session: str
    number: int = 0
    ranges: tuple[Range, ...] = ()
    deadline_ms: int = 0

    @property
    def records(self) -> int:
        """Number of offsets."""
        return sum(one.size for one in self.ranges)

    @property
    def name(self) -> str:
        """What the server keeps verdicts under; no two batches of a session have the same."""
        return f"{self.number}-{self.deadline_ms}"

    def next(self, ranges: Iterable[Range], deadline_ms: int) -> Batch:
        """The batch after this one."""
        return Batch(self.session, self.number + 1, tuple(sorted(ranges)), deadline_ms)


def to_json(batch: Batch) -> dict[str, Any]:
    """What Spark is given."""
    ranges: dict[str, dict[str, list[list[int]]]] = {}
    for topic, partition, first, last, count in batch.ranges:
        ranges.setdefault(topic, {}).setdefault(str(partition), []).append([first, last, count])
    return {"v": VERSION, "s": batch.session, "n": batch.number, "d": batch.deadline_ms, "r": ranges}


def from_json(offset: Mapping[str, Any]) -> Batch:
    """What Spark gives back. Raises ValueError for what this version has not written."""
    try:
        if offset["v"] != VERSION:
            raise ValueError(f"version {offset['v']}")
        ranges = tuple(_ranges(offset["r"]))
        return Batch(str(offset["s"]), int(offset["n"]), ranges, int(offset["d"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"The checkpoint holds an offset that this version cannot read: {offset!r}"
        ) from error


def _ranges(topics: Mapping[str, Mapping[str, Sequence[Sequence[int]]]]) -> Iterable[Range]:
    for topic, partitions in topics.items():
        for partition, spans in partitions.items():
            for first, last, count in spans:
                yield Range(topic, int(partition), first, last, count)
