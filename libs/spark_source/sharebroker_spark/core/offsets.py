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
class PlannedBatch:
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

    def next(self, ranges: Iterable[Range], deadline_ms: int) -> PlannedBatch:
        """Returns the batch that follows this one."""
        return PlannedBatch(self.session, self.number + 1, tuple(sorted(ranges)), deadline_ms)


def to_json(batch: PlannedBatch) -> dict[str, Any]:
    """Returns the JSON form for Spark."""
    ranges: dict[str, dict[str, list[list[int]]]] = {}
    for topic, partition, first, last, count in batch.ranges:
        ranges.setdefault(topic, {}).setdefault(str(partition), []).append([first, last, count])
    return {"v": VERSION, "s": batch.session, "n": batch.number, "d": batch.deadline_ms, "r": ranges}


def from_json(offset: Mapping[str, Any]) -> PlannedBatch:
    """Returns the batch of a JSON form. Raises ValueError if another version wrote it."""
    try:
        if offset["v"] != VERSION:
            raise ValueError(f"version {offset['v']}")
        ranges = tuple(_ranges(offset["r"]))
        return PlannedBatch(str(offset["s"]), int(offset["n"]), ranges, int(offset["d"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"The checkpoint holds an offset that this version cannot read: {offset!r}"
        ) from error


def _ranges(topics: Mapping[str, Mapping[str, Sequence[Sequence[int]]]]) -> Iterable[Range]:
    for topic, partitions in topics.items():
        for partition, spans in partitions.items():
            for first, last, count in spans:
                yield Range(topic, int(partition), first, last, count)


def split_into_tasks(ranges: Sequence[Range], records_per_task: int, min_tasks: int) -> list[list[Range]]:
    """Returns tasks of almost equal size, none with more than `records_per_task` offsets, in order.

    There are at least `min_tasks` tasks if there are enough offsets. A partition may be split over many
    tasks, and a task may read many partitions.
    """
    remaining = sum(offset_range.size for offset_range in ranges)
    count = min(remaining, max(min_tasks, -(-remaining // records_per_task)))
    tasks: list[list[Range]] = []
    stack = list(reversed(ranges))
    while count:
        size = -(-remaining // count)
        tasks.append(_pop_offsets(stack, size))
        remaining, count = remaining - size, count - 1
    return tasks


def _pop_offsets(stack: list[Range], size: int) -> list[Range]:
    """Removes the next `size` offsets from the end of a stack of ranges."""
    popped = []
    while size:
        offset_range = stack.pop()
        if offset_range.size > size:
            stack.append(offset_range._replace(first=offset_range.first + size))
            offset_range = offset_range._replace(last=offset_range.first + size - 1)
        popped.append(offset_range)
        size -= offset_range.size
    return popped


def unreached(ends: Mapping[Partition, int], ranges: Iterable[Range]) -> dict[Partition, int]:
    """Returns the partitions whose log end, as of the start of the run, is not planned yet.

    Planned offsets of a partition ascend: once a range reaches the end, no offset before it remains.
    """
    reached = {
        (offset_range.topic, offset_range.partition)
        for offset_range in ranges
        if offset_range.last >= ends.get(offset_range[:2], 0) - 1
    }
    return {partition: end for partition, end in ends.items() if partition not in reached}
