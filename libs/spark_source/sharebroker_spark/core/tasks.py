"""Cutting a batch into tasks, and deciding what a run that ends by itself still has to plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sharebroker_spark.core.offsets import Partition, Range
from sharebroker_spark.core.options import OptionError


def cut(ranges: Sequence[Range], records_per_task: int, min_tasks: int) -> list[list[Range]]:
    """Tasks of nearly the same number of offsets, none of more than `records_per_task`, in order.

    At least `min_tasks`, as far as there are offsets; a partition may feed many tasks, and a task read of
    many partitions.
    """
    left = sum(one.size for one in ranges)
    number = min(left, max(min_tasks, -(-left // records_per_task)))
    tasks: list[list[Range]] = []
    waiting = list(reversed(ranges))
    while number:
        size = -(-left // number)
        tasks.append(_take(waiting, size))
        left, number = left - size, number - 1
    return tasks


def _take(waiting: list[Range], size: int) -> list[Range]:
    """The next `size` offsets, off the end of a stack of ranges."""
    taken = []
    while size:
        one = waiting.pop()
        if one.size > size:
            waiting.append(one._replace(first=one.first + size))
            one = one._replace(last=one.first + size - 1)
        taken.append(one)
        size -= one.size
    return taken


def snapshot(
    spans: Mapping[Partition, tuple[int, int]],
    starting: Mapping[Partition, int],
    ending: Mapping[Partition, int],
) -> list[Range]:
    """What of logs (first offset, and the one behind the last) a table shows; both ends may be asked for.

    What is asked for and was removed is in it, so that whoever reads it finds out. Raises OptionError for a
    partition that there is not, and for an offset behind the end.
    """
    for part in {**starting, **ending}:
        if part not in spans:
            raise OptionError(
                f"option startingOffsets or endingOffsets names {part[0]}-{part[1]}; there is none"
            )
    asked = {part: (starting.get(part, first), ending.get(part, end)) for part, (first, end) in spans.items()}
    for (topic, partition), (first, end) in asked.items():
        if end > spans[topic, partition][1]:
            raise OptionError(
                f"option endingOffsets ends {topic}-{partition} at {end}, behind its end, "
                f"{spans[topic, partition][1]}"
            )
        if first > end and (topic, partition) in starting:
            raise OptionError(
                f"option startingOffsets begins {topic}-{partition} at {first}, behind its end, {end}"
            )
    return [Range(*part, first, end - 1) for part, (first, end) in sorted(asked.items()) if first < end]


def unreached(ends: Mapping[Partition, int], ranges: Iterable[Range]) -> dict[Partition, int]:
    """The partitions whose log, as it was when the run began, may have more than was planned.

    What is planned of a partition ascends: once a range comes up to its end, nothing before it is to be had.
    """
    reached = {(one.topic, one.partition) for one in ranges if one.last >= ends.get(one[:2], 0) - 1}
    return {partition: end for partition, end in ends.items() if partition not in reached}
