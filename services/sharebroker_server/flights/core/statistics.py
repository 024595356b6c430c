"""The figures of a run: its progress, and the delays by carrier and by route."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sharebroker_server.flights.core.flight import FlightAcknowledgement


@dataclass(frozen=True, slots=True)
class RunProgress:
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
        values = {name.replace("_", " "): value for name, value in asdict(self).items()}
        values["records/s"] = values.pop("rate")
        return [(label, "-" if value is None else f"{value:,.0f}") for label, value in values.items()]

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


@dataclass(slots=True)
class Delays:
    """Sums over flights, in minutes; `rejected` counts flights that could not be processed."""

    flights: int = 0
    departure: int = 0
    arrival: int = 0
    rejected: int = 0

    @property
    def mean_departure(self) -> float:
        """The mean departure delay in minutes."""
        return self.departure / self.flights if self.flights else 0.0

    @property
    def mean_arrival(self) -> float:
        """The mean arrival delay in minutes."""
        return self.arrival / self.flights if self.flights else 0.0

    def add(self, other: Delays) -> None:
        """Adds another sum to this one."""
        self.flights += other.flights
        self.departure += other.departure
        self.arrival += other.arrival
        self.rejected += other.rejected


@dataclass(slots=True)
class RunSummary:
    """The result of the workers; each finished record counts once."""

    carriers: dict[str, Delays] = field(default_factory=dict)
    routes: dict[str, Delays] = field(default_factory=dict)

    def count(
        self, acknowledgement: FlightAcknowledgement, carrier: str, route: str, minutes: tuple[int, int]
    ) -> None:
        """Counts one finished flight; `minutes` are its (departure, arrival) delays."""
        rejected = acknowledgement is FlightAcknowledgement.REJECT
        delays = Delays(rejected=1) if rejected else Delays(1, *minutes)
        for sums, name in ((self.carriers, carrier), (self.routes, route)):
            sums.setdefault(name, Delays()).add(delays)

    def add(self, other: RunSummary) -> None:
        """Adds another summary to this one."""
        for sums, others in ((self.carriers, other.carriers), (self.routes, other.routes)):
            for name, delays in others.items():
                sums.setdefault(name, Delays()).add(delays)

    @property
    def finished(self) -> int:
        """The number of records."""
        return sum(delays.flights + delays.rejected for delays in self.carriers.values())

    def by_carrier(self) -> list[tuple[str, Delays]]:
        """Returns the carriers, highest mean arrival delay first."""
        return sorted(self.carriers.items(), key=lambda item: (-item[1].mean_arrival, item[0]))

    def worst_routes(self, limit: int, at_least: int = 50) -> list[tuple[str, Delays]]:
        """Returns the routes with the highest mean arrival delay, of those with enough flights."""
        flown = [(name, delays) for name, delays in self.routes.items() if delays.flights >= at_least]
        return sorted(flown, key=lambda item: (-item[1].mean_arrival, item[0]))[:limit]

    def to_dict(self) -> dict[str, Any]:
        """Returns the summary as plain values."""
        return asdict(self)

    @staticmethod
    def of_dict(plain: dict[str, dict[str, dict[str, int]]]) -> RunSummary:
        """Returns the summary of plain values."""
        tables = {name: {key: Delays(**sums) for key, sums in table.items()} for name, table in plain.items()}
        return RunSummary(**tables)
