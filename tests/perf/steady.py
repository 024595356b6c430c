"""Detects when a program has warmed up and measures it after that: pure rules over samples of its progress.

A program reports how many records it has done, several times a second. It first warms up: client and server
compile their hot code, caches fill, groups join. `Rule` decides when the rate is steady. From then on `Meter`
adds up records, time and CPU until enough seconds are measured. A program may work through its records in
several passes; the beginning of each pass is left out, so that neither joining nor the end of a topic counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

SETTLE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Progress at a moment: records done so far, seconds of the program's clock, CPU seconds of the server.

    `rss` is the server's memory in bytes; `latencies` (milliseconds) are of the time since the last sample.
    """

    count: int
    at: float
    cpu: float = 0.0
    rss: int = 0
    latencies: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Steady: the rates of the last `windows` windows lie within `within` of their median.

    Not before `least_records` records are done. After `most_seconds` of warming up the measurement begins
    anyway; the result then is marked as not steady. A window lasts `window` seconds.
    """

    least_records: int
    most_seconds: float = 40.0
    windows: int = 5
    window: float = 1.0
    within: float = 0.1

    def is_steady(self, rates: Sequence[float]) -> bool:
        """Whether the last windows' rates are close enough to each other."""
        last = rates[-self.windows :]
        if len(last) < self.windows:
            return False
        middle = median(last)
        return middle > 0 and all(abs(rate - middle) <= self.within * middle for rate in last)


@dataclass(slots=True)
class Measured:
    """Sums over the measured time. `warm_seconds` is how long the warm-up took; `rss` is the most memory."""

    records: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    rss: int = 0
    latencies: list[float] = field(default_factory=list)
    warm_seconds: float = 0.0
    steady: bool = False

    @property
    def rate(self) -> float:
        """Records a second; 0 where nothing was measured."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def cpu_per_record(self) -> float:
        """Microseconds of the server's CPU per record; 0 where nothing was measured."""
        return self.cpu / self.records * 1e6 if self.records else 0.0


class Meter:
    """Takes samples in their order; first warms up, then measures `seconds` seconds."""

    def __init__(self, rule: Rule, seconds: float, settle: float = SETTLE_SECONDS) -> None:
        self.measured = Measured()
        self._rule = rule
        self._seconds = seconds
        self._settle = settle
        self._rates: list[float] = []
        self._begun: Sample | None = None  # the first sample of all
        self._first: Sample | None = None  # the first sample of this pass with records
        self._base: Sample | None = None  # of this pass or window: where it counts from
        self._warm = False

    @property
    def done(self) -> bool:
        """Whether enough was measured."""
        return self.measured.seconds >= self._seconds

    def begin_pass(self) -> None:
        """Starts a new pass over the records; its first second is not measured."""
        self._first = self._base = None

    def add(self, sample: Sample) -> None:
        """One more sample. Counts and times never fall."""
        self.measured.rss = max(self.measured.rss, sample.rss)
        self._begun = self._begun or sample
        if self._first is None or sample.count == self._first.count:
            self._first = sample  # no record of this pass is done yet
        elif sample.at - self._first.at < self._settle:
            pass
        elif self._base is None:
            self._base = sample
        elif self._warm:
            self._measure(self._base, sample)
        else:
            self._warm_up(self._base, sample)

    def _measure(self, base: Sample, sample: Sample) -> None:
        if self.done:
            return
        measured = self.measured
        measured.records += sample.count - base.count
        measured.seconds += sample.at - base.at
        measured.cpu += sample.cpu - base.cpu
        measured.latencies += sample.latencies
        self._base = sample

    def _warm_up(self, base: Sample, sample: Sample) -> None:
        if sample.at - base.at < self._rule.window:
            return
        self._rates.append((sample.count - base.count) / (sample.at - base.at))
        self._base = sample
        begun = self._begun or sample
        self.measured.warm_seconds = sample.at - begun.at
        enough = sample.count - begun.count >= self._rule.least_records
        self.measured.steady = enough and self._rule.is_steady(self._rates)
        self._warm = self.measured.steady or self.measured.warm_seconds >= self._rule.most_seconds
