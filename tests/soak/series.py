"""Measurements over time, and whether they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

HOUR: Final = 3600.0
WORTH: Final = 240.0
"""Minimum seconds of a series for a statement about growth."""


@dataclass
class Series:
    """A repeated measurement: (seconds, value). `slack` is growth that is ignored."""

    name: str
    unit: str
    slack: float
    points: list[tuple[float, float]] = field(default_factory=list)

    def add(self, at: float, value: float) -> None:
        """Adds a measurement."""
        self.points.append((at, value))

    @property
    def settled(self) -> list[tuple[float, float]]:
        """Returns the points without the first third, in which buffers fill and caches warm."""
        return self.points[len(self.points) // 3 :]

    @property
    def seconds(self) -> float:
        """Returns the seconds from the first settled point to the last."""
        settled = self.settled
        return settled[-1][0] - settled[0][0] if settled else 0.0

    @property
    def slope(self) -> float:
        """Returns the slope of the settled points (least squares), per hour."""
        return slope(self.settled) * HOUR

    @property
    def grows(self) -> bool:
        """Returns whether it has grown by more than a tenth, and by more than the slack."""
        settled = self.settled
        if self.seconds < WORTH:
            return False
        grown = slope(settled) * self.seconds
        return grown > self.slack and grown > settled[0][1] / 10


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Returns the slope of points (least squares); 0 if they have none."""
    if not points:
        return 0.0
    middle = sum(x for x, _ in points) / len(points)
    level = sum(y for _, y in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    return sum((x - middle) * (y - level) for x, y in points) / spread if spread else 0.0
