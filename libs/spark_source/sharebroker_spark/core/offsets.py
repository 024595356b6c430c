"""The Spark offset: a session, a batch number and the ranges of the batch.

Spark stores it in its checkpoint and passes it back unchanged, possibly to another process. It therefore
contains everything needed to read the batch again and to commit it. Offsets are compared as text, so the
order of keys is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

VERSION: Final = 1

Partition = tuple[str, int]
"""A topic name and a partition number."""


class Range(NamedTuple):
    """Offsets first..last of a topic partition, and their delivery count."""

    topic: str
    partition: int
    first: int
    last: int
    delivery_count: int = 1

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A planned batch. Number 0 precedes the first batch and has no ranges.

    `deadline_ms` is the end of its first lock as of planning, in ms since the Unix epoch.
    """

    session: str
    number: int = 0
    ranges: tuple[Range, ...] = ()
    deadline_ms: int = 0

    @property
    def records(self) -> int:
        """The number of offsets."""
        return sum(offset_range.size for offset_range in self.ranges)

    @property
    def name(self) -> str:
        """The name under which the server stores verdicts; unique in a session."""
        return f"{self.number}-{self.deadline_ms}"

    def next(self, ranges: Iterable[Range], deadline_ms: int) -> Batch:
        """Returns the batch that follows this one."""
        return Batch(self.session, self.number + 1, tuple(sorted(ranges)), deadline_ms)


def to_json(batch: Batch) -> dict[str, Any]:
    """Returns the JSON form for Spark."""
    ranges: dict[str, dict[str, list[list[int]]]] = {}
    for topic, partition, first, last, count in batch.ranges:
        ranges.setdefault(topic, {}).setdefault(str(partition), []).append([first, last, count])
    return {"v": VERSION, "s": batch.session, "n": batch.number, "d": batch.deadline_ms, "r": ranges}


def from_json(offset: Mapping[str, Any]) -> Batch:
    """Returns the batch of a JSON form. Raises ValueError if another version wrote it."""
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
