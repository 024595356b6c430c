"""The times at which each sequence of work progressed, and its pauses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class WorkSequence(NamedTuple):
    """A unit of independent progress: a producer's records of a partition, or a group's acknowledgements
    of them.
    """

    actor: str
    partition: int


class WorkSequences:
    """The times at which each sequence progressed, in seconds."""

    def __init__(self) -> None:
        self._worked: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    def worked(self, sequence: tuple[str, int], at: float) -> None:
        """Records progress."""
        self._worked[sequence].append(at)

    def expect(self, sequences: Sequence[tuple[str, int]]) -> None:
        """Adds sequences that have to progress, also before their first progress."""
        for sequence in sequences:
            self._worked[sequence]

    def idle(self, since: float) -> list[WorkSequence]:
        """Returns the sequences without progress since a time."""
        return sorted(
            WorkSequence(*sequence)
            for sequence, times in self._worked.items()
            if not times or times[-1] <= since
        )

    def pauses(self, begin: float, end: float) -> dict[str, float]:
        """Returns the longest pause between two times, per kind of work over all its partitions."""
        longest: defaultdict[str, float] = defaultdict(float)
        for (actor, _), times in self._worked.items():
            times = sorted(times)  # threads may overtake each other
            inside = times[bisect_right(times, begin) : bisect_left(times, end)]
            marks = [begin, *inside, end]
            gap = max(later - earlier for earlier, later in pairwise(marks))
            longest[actor] = max(longest[actor], gap)
        return dict(longest)
