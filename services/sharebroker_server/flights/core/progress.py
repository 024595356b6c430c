"""The progress of a run, and its text form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LABELS: Final = {
    "published": "published",
    "accepted": "accepted",
    "released": "released",
    "rejected": "rejected",
    "locks_lost": "locks lost",
    "lag": "lag",
    "rate": "records/s",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of records; `lag` is the group's, None if unknown, `rate` covers the last seconds."""

    published: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    locks_lost: int = 0
    lag: int | None = None
    rate: float = 0.0

    def cells(self) -> list[tuple[str, str]]:
        """Returns names and values for a table."""
        return [(label, _readable(getattr(self, name))) for name, label in LABELS.items()]

    def line(self) -> str:
        """Returns all values in one line."""
        return "  ".join(f"{label} {value}" for label, value in self.cells())


class Rate:
    """The rate per second over the last `span` seconds, from sampled totals."""

    __slots__ = ("_samples", "_span")

    def __init__(self, span: float = 3.0) -> None:
        self._span = span
        self._samples: list[tuple[float, int]] = []

    def sample(self, total: int, now: float) -> float:
        """Samples the total at `now` (seconds) and returns the rate."""
        self._samples = [(at, count) for at, count in self._samples if at > now - self._span]
        self._samples.append((now, total))
        first_at, first = self._samples[0]
        return (total - first) / (now - first_at) if now > first_at else 0.0


def _readable(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
