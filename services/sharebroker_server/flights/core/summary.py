"""Delays by carrier and by route; partial sums can be added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from sharebroker_server.flights.core.flight import Acknowledgement


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
class Summary:
    """The result of the workers; each finished record counts once."""

    carriers: dict[str, Delays] = field(default_factory=dict)
    routes: dict[str, Delays] = field(default_factory=dict)

    def count(
        self, acknowledgement: Acknowledgement, carrier: str, route: str, minutes: tuple[int, int]
    ) -> None:
        """Counts one finished flight; `minutes` are its (departure, arrival) delays."""
        if acknowledgement is Acknowledgement.REJECT:
            delays = Delays(rejected=1)
        else:
            delays = Delays(flights=1, departure=minutes[0], arrival=minutes[1])
        self.carriers.setdefault(carrier, Delays()).add(delays)
        self.routes.setdefault(route, Delays()).add(delays)

    def add(self, other: Summary) -> None:
        """Adds another summary to this one."""
        for name, delays in other.carriers.items():
            self.carriers.setdefault(name, Delays()).add(delays)
        for name, delays in other.routes.items():
            self.routes.setdefault(name, Delays()).add(delays)

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
    def of_dict(plain: dict[str, Any]) -> Summary:
        """Returns the summary of plain values."""
        return Summary(dict(_read(plain["carriers"])), dict(_read(plain["routes"])))


def _read(table: dict[str, dict[str, int]]) -> Iterator[tuple[str, Delays]]:
    return ((name, Delays(**sums)) for name, sums in table.items())
