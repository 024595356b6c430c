"""Delays by carrier and by route, summed up record by record; sums of parts can be added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from sharebroker_server.flights.core.flight import Answer


@dataclass(slots=True)
class Delays:
    """Sums over flights, in minutes; `rejected` counts those that could not be processed."""

    flights: int = 0
    departure: int = 0
    arrival: int = 0
    rejected: int = 0

    @property
    def mean_departure(self) -> float:
        """Minutes a flight left late."""
        return self.departure / self.flights if self.flights else 0.0

    @property
    def mean_arrival(self) -> float:
        """Minutes a flight arrived late."""
        return self.arrival / self.flights if self.flights else 0.0

    def add(self, other: Delays) -> None:
        """Adds another sum to this one."""
        self.flights += other.flights
        self.departure += other.departure
        self.arrival += other.arrival
        self.rejected += other.rejected


@dataclass(slots=True)
class Summary:
    """What the workers found out; each finished record counts once."""

    carriers: dict[str, Delays] = field(default_factory=dict)
    routes: dict[str, Delays] = field(default_factory=dict)

    def count(self, answer: Answer, carrier: str, route: str, minutes: tuple[int, int]) -> None:
        """Counts one finished flight; `minutes` are its delays at (departure, arrival)."""
        if answer is Answer.REJECT:
            found = Delays(rejected=1)
        else:
            found = Delays(flights=1, departure=minutes[0], arrival=minutes[1])
        self.carriers.setdefault(carrier, Delays()).add(found)
        self.routes.setdefault(route, Delays()).add(found)

    def add(self, other: Summary) -> None:
        """Adds another summary to this one."""
        for name, found in other.carriers.items():
            self.carriers.setdefault(name, Delays()).add(found)
        for name, found in other.routes.items():
            self.routes.setdefault(name, Delays()).add(found)

    @property
    def finished(self) -> int:
        """Records in it."""
        return sum(found.flights + found.rejected for found in self.carriers.values())

    def by_carrier(self) -> list[tuple[str, Delays]]:
        """Carriers, the latest at arrival first."""
        return sorted(self.carriers.items(), key=lambda item: (-item[1].mean_arrival, item[0]))

    def worst_routes(self, most: int, at_least: int = 50) -> list[tuple[str, Delays]]:
        """The routes that arrive latest, of those with some flights."""
        flown = [(name, found) for name, found in self.routes.items() if found.flights >= at_least]
        return sorted(flown, key=lambda item: (-item[1].mean_arrival, item[0]))[:most]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @staticmethod
    def of_dict(plain: dict[str, Any]) -> Summary:
        """The inverse of `to_dict`."""
        return Summary(dict(_read(plain["carriers"])), dict(_read(plain["routes"])))


def _read(table: dict[str, dict[str, int]]) -> Iterator[tuple[str, Delays]]:
    return ((name, Delays(**sums)) for name, sums in table.items())
