"""Metrics of the reads from another cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharebroker_server.telemetry.metrics import Family, counter

_COUNTERS: Final = (
    ("fetches", "Fetch requests that were sent to the Kafka cluster of --log."),
    ("fetched_bytes", "Bytes of record batches that were fetched from that cluster."),
    ("errors", "Errors of that cluster for a partition, and failed connections to its brokers."),
    ("truncations", "Truncations of partitions in that cluster after records were read (unclean elections)."),
)
"""Attribute of `Counters`, and help."""


class Counters:
    """Counts since the process started."""

    __slots__ = ("errors", "fetched_bytes", "fetches", "truncations")

    def __init__(self) -> None:
        self.fetches = self.fetched_bytes = self.errors = self.truncations = 0

    def families(self) -> Iterator[Family]:
        """Returns the metric families; see Collector."""
        for name, help_ in _COUNTERS:
            yield counter(f"sharebroker_upstream_{name}_total", help_, [((), getattr(self, name))])
