"""The measured figures as a file, and the tables of docs/scale.md that follow from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.perf.scale.measure import PROGRAMS, Layout, Outcome
from tests.perf.scale.model import (
    BROKER,
    CLIENT,
    COORDINATOR,
    GATEWAY,
    GROUPS,
    LEADER,
    REDIS,
    Idle,
    Limits,
    Load,
    brokers_for,
    forwarded,
    highest_rate,
    rate_one_at_a_time,
    size_for,
    together,
)

FILE: Final = Path(__file__).parent / "figures.json"
DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "scale.md"
BEGIN, END = "<!-- begin {} -->", "<!-- end {} -->"

STATIONS: Final[Mapping[str, str]] = {
    GATEWAY: "gateway",
    LEADER: "leader",
    COORDINATOR: "share coordinator",
    GROUPS: "group coordinator",
    BROKER: "broker",
    REDIS: "Redis",
    CLIENT: "client",
}
SPLIT: Final = Layout(0, 1)
ONE: Final = Layout(1, 1)
LAYOUTS: Final = (ONE, Layout(1, 2), Layout(2, 1), Layout(2, 2), Layout(4, 2), SPLIT, Layout(0, 2))
"""The sizes that two cores can run. The model predicts the others from the demands at ONE and at SPLIT."""

HOUR: Final = 3600.0
RECORD: Final = 110.0
"""Bytes of Redis' memory for a record of 100 bytes that was published in a batch (docs/operations.md)."""

LOADS: Final[Mapping[str, Load]] = {
    "10 thousand records/s, kept for a day": Load(10_000, RECORD, 24 * HOUR, share_partitions=50),
    "1 million records/s, kept for an hour": Load(1_000_000, RECORD, HOUR, share_partitions=1000),
    "10 million records/s, kept for ten minutes": Load(10_000_000, RECORD, 600.0, share_partitions=10_000),
    "10 thousand records/s over 1 million share-partitions": Load(
        10_000, RECORD, 24 * HOUR, share_partitions=1_000_000
    ),
}


@dataclass(frozen=True, slots=True)
class Measurements:
    """Everything that the tables need: the machine and date, outcomes by layout and program, idle cost."""

    machine: str
    cores: int
    outcomes: Mapping[Layout, Mapping[str, Outcome]]
    idle: Idle

    def as_json(self) -> str:
        """Returns the contents of the file."""
        rows = [
            {**asdict(layout), "program": program, **_rounded(outcome)}
            for layout, programs in self.outcomes.items()
            for program, outcome in programs.items()
        ]
        document = {"machine": self.machine, "cores": self.cores, "idle": asdict(self.idle), "outcomes": rows}
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str) -> Measurements:
        """Reads the contents of a file."""
        document = json.loads(text)
        outcomes: dict[Layout, dict[str, Outcome]] = {}
        for row in document["outcomes"]:
            found = outcomes.setdefault(Layout(row["brokers"], row["clients"]), {})
            found[row["program"]] = Outcome(row["rate"], row["demand"])
        return cls(document["machine"], document["cores"], outcomes, Idle(**document["idle"]))

    def predicted(self, layout: Layout, program: str) -> tuple[float, float]:
        """Returns the rates of a layout by the model, from the demands at ONE and SPLIT.

        The first is that of a load that waits for each result, the second that of a pipelined load.
        """
        demand = split = self.outcomes[SPLIT][program].demand
        if layout.brokers:
            demand = forwarded(self.outcomes[ONE][program].demand, split, layout.brokers)
        return rate_one_at_a_time(demand), highest_rate(demand, layout.processes, self.cores).rate


def demands(measurements: Measurements) -> str:
    """Returns the table of demands, and of the rate at which one process of a station is fully used."""
    head = ["Work", *(f"{STATIONS[station]}, µs" for station in STATIONS), "bounds one process each"]
    rows = []
    for layout in (ONE, SPLIT):
        for program, label in PROGRAMS.items():
            demand = measurements.outcomes[layout][program].demand
            served = {station: cpu for station, cpu in demand.items() if station != CLIENT}
            bound = highest_rate(served, {}, cores=1e9)
            cells = [f"{demand[station]:.2f}" if station in demand else "" for station in STATIONS]
            rows.append([label, *cells, f"{_rate(bound.rate)} ({STATIONS[bound.station]})"])
    return _table(head, rows)


def predictions(measurements: Measurements) -> str:
    """Returns the table of predicted and measured rates at the sizes that were run."""
    head = [
        "Size",
        "Work",
        "waiting, by the model",
        "pipelined, by the model",
        "measured",
        "measured / pipelined",
    ]
    rows = []
    for layout, programs in measurements.outcomes.items():
        for program, outcome in programs.items():
            waiting, pipelined = measurements.predicted(layout, program)
            rates = [_rate(waiting), _rate(pipelined), _rate(outcome.rate)]
            rows.append([layout.label, PROGRAMS[program], *rates, f"{outcome.rate / pipelined:.2f}"])
    return _table(head, rows)


def sizes(measurements: Measurements, loads: Mapping[str, Load], limits: Limits) -> str:
    """Returns the table of sizes: with all roles in each broker, and with one role per process."""
    head = ["Load", "brokers with all roles", "or gateways, leaders, share coordinators"]
    head += ["Redis shards", "Redis memory", "broker memory, idle", "cores at work", "partitions, at least"]
    rows = []
    for name, load in loads.items():
        local, split = (_whole(measurements.outcomes[layout], load.groups) for layout in (ONE, SPLIT))
        merged = brokers_for(load, local, split, measurements.idle, limits)
        apart = size_for(load, split, measurements.idle, limits).processes
        rows.append(
            [
                name,
                f"{merged.processes[BROKER]:,}",
                ", ".join(f"{apart[station]:,}" for station in (GATEWAY, LEADER, COORDINATOR)),
                f"{merged.processes[REDIS]:,} ({merged.bounded_by})",
                f"{merged.redis_memory / 1e9:,.0f} GB",
                f"{merged.broker_memory / 1e9:,.1f} GB",
                f"{merged.cores:,.1f}",
                f"{merged.partitions:,}",
            ]
        )
    return _table(head, rows)


def _whole(outcomes: Mapping[str, Outcome], groups: int) -> dict[str, float]:
    """Returns the demand of a record that is published in a batch and accepted by its own call per group."""
    return together(outcomes["publish"].demand, *[outcomes["each"].demand] * groups)


def with_tables(document: str, measurements: Measurements) -> str:
    """Returns the document with the tables of the figures between their marks. Raises ValueError."""
    tables = {
        "demands": demands(measurements),
        "predictions": predictions(measurements),
        "sizes": sizes(measurements, LOADS, Limits()),
    }
    for name, table in tables.items():
        before, begin, rest = document.partition(BEGIN.format(name))
        _, end, after = rest.partition(END.format(name))
        if not (begin and end):
            raise ValueError(f"the document has no marks for the table {name}")
        document = f"{before}{begin}\n{table}\n{end}{after}"
    return document


def _rounded(outcome: Outcome) -> dict[str, Any]:
    demand = {station: round(cpu, 3) for station, cpu in outcome.demand.items()}
    return {"rate": round(outcome.rate), "demand": demand}


def _rate(value: float) -> str:
    """Returns records per second in three digits."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
