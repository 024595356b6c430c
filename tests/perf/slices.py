"""Runs a program on two servers in slices, so that a drift of the machine affects both alike.

A program runs in two slices on each server, in the order A B B A. If the machine becomes faster or slower at
a constant pace, the slices of both servers have the same mean speed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from tests.perf.processes import BenchFailed

Side = TypeVar("Side")

SLICES: Final = 2
"""Slices of a program on each side. Each has the same part of the program's work."""

MEASURED: Final = "records"
"""The figure with the number of records that a slice measured."""

PAUSE_SECONDS: Final = 1.0


class Sliced(Protocol):
    """A server, and the programs that drive it."""

    def run(self, name: str, number: int) -> Mapping[str, float]:
        """Runs slice `number` of a program, from 0; returns its figures. Raises BenchFailed."""


def each_in_slices(
    servers: Mapping[Side, Sliced], names: Sequence[str], order: Sequence[Side], whole: Container[str] = ()
) -> Iterator[tuple[str, Mapping[Side, Mapping[str, float]] | BenchFailed]]:
    """Yields the figures of each program on each side, or its failure; those in `whole` have one slice."""
    for name in names:
        try:
            yield name, in_slices(servers, name, order, 1 if name in whole else SLICES)
        except BenchFailed as failure:
            yield name, failure


def in_slices(
    servers: Mapping[Side, Sliced], name: str, order: Sequence[Side], slices: int = SLICES
) -> dict[Side, dict[str, float]]:
    """Returns the figures of a program on each side; the first side of `order` begins. Raises BenchFailed."""
    found: dict[Side, list[Mapping[str, float]]] = {side: [] for side in order}
    for number in range(slices):
        for side in order if number % 2 == 0 else order[::-1]:
            settle()
            found[side].append(servers[side].run(name, number))
    return {side: joined(figures) for side, figures in found.items()}


def settle() -> None:
    """Flushes the disk, so that a program does not wait for earlier writes."""
    os.sync()
    time.sleep(PAUSE_SECONDS)


def joined(slices: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the figures that all slices have, as those of one run.

    The rate is the sum of the records over the sum of the seconds. Every other figure is the mean over the
    records, so that CPU per record is the sum of the CPU over that of the records. Slices that do not state
    their records count alike.
    """
    records = [one.get(MEASURED, 1.0) for one in slices]
    total = sum(records)
    figures: dict[str, float] = {}
    for key in slices[0]:
        values = [one[key] for one in slices if key in one]
        if len(values) < len(slices):
            continue
        if key == MEASURED:
            figures[key] = total
        elif not total or (key == "rate" and not all(values)):
            figures[key] = 0.0
        elif key == "rate":
            figures[key] = total / sum(n / rate for n, rate in zip(records, values, strict=True))
        else:
            figures[key] = sum(n * value for n, value in zip(records, values, strict=True)) / total
    return figures
