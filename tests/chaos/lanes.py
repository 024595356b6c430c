"""The times at which work progressed, lane by lane, and its pauses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Lane(NamedTuple):
    """A unit of independent progress: a producer's records of a partition, or a group's acknowledgements
    of them.
    """

    who: str
    partition: int


class Lanes:
    """The times at which each lane progressed, in seconds."""

    def __init__(self) -> None:
        self._worked: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    def worked(self, lane: tuple[str, int], at: float) -> None:
        """Records progress."""
        self._worked[lane].append(at)

    def expect(self, lanes: Sequence[tuple[str, int]]) -> None:
        """Adds lanes that have to progress, whether they have yet or not."""
        for lane in lanes:
            self._worked[lane]

    def idle(self, since: float) -> list[Lane]:
        """Returns the lanes without progress since a time."""
        return sorted(Lane(*lane) for lane, times in self._worked.items() if not times or times[-1] <= since)

    def pauses(self, begin: float, end: float) -> dict[str, float]:
        """Returns the longest pause between two times, per kind of work over all its partitions."""
        longest: defaultdict[str, float] = defaultdict(float)
        for (who, _), times in self._worked.items():
            times = sorted(times)  # threads may overtake each other
            inside = times[bisect_right(times, begin) : bisect_left(times, end)]
            marks = [begin, *inside, end]
            gap = max(later - earlier for earlier, later in pairwise(marks))
            longest[who] = max(longest[who], gap)
        return dict(longest)
