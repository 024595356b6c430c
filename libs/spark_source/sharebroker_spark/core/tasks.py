"""Splits a batch into tasks, and tracks what a run with Trigger.AvailableNow has yet to plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sharebroker_spark.core.offsets import Partition, Range
from sharebroker_spark.core.options import OptionError


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


def snapshot(
    spans: Mapping[Partition, tuple[int, int]],
    starting: Mapping[Partition, int],
    ending: Mapping[Partition, int],
) -> list[Range]:
    """Returns the ranges of a table, from logs (first offset, end offset) and the requested bounds.

    Requested offsets that were deleted are included, so that the read detects the loss. Raises OptionError
    for an unknown partition, and for an offset beyond the log end.
    """
    for part in {**starting, **ending}:
        if part not in spans:
            raise OptionError(
                f"option startingOffsets or endingOffsets names {part[0]}-{part[1]}, which does not exist"
            )
    bounds = {
        part: (starting.get(part, first), ending.get(part, end)) for part, (first, end) in spans.items()
    }
    for (topic, partition), (first, end) in bounds.items():
        if end > spans[topic, partition][1]:
            raise OptionError(
                f"option endingOffsets ends {topic}-{partition} at {end}, beyond its log end "
                f"{spans[topic, partition][1]}"
            )
        if first > end and (topic, partition) in starting:
            raise OptionError(
                f"option startingOffsets starts {topic}-{partition} at {first}, beyond its end {end}"
            )
    return [Range(*part, first, end - 1) for part, (first, end) in sorted(bounds.items()) if first < end]


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
