"""The figures measured on both systems, and the aims for Sharebroker's ratio to Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

Unit = Literal["records/s", "ms", "%", "us", "MB"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table. `aim` bounds the ratio to Kafka: from below for rates, from above for others.

    For figures that are a share of the machine, `aim` bounds the figure and not the ratio.
    """

    key: str
    label: str
    unit: Unit
    aim: float | None = None

    @property
    def absolute(self) -> bool:
        """Whether the aim is for the figure itself."""
        return self.unit == "%"

    @property
    def program(self) -> str:
        """The name of the program that it comes from."""
        return self.key.partition(".")[0]

    def met(self, value: float) -> bool | None:
        """Whether a ratio, or the figure itself, reaches the aim; None without one."""
        if self.aim is None:
            return None
        return value >= self.aim if self.unit == "records/s" else value <= self.aim


@dataclass(frozen=True, slots=True)
class Row:
    """A program's figures: its rate or times, then the server's CPU per record."""

    program: str
    label: str
    rate_aim: float | None = None
    times: tuple[Figure, ...] = field(default=())

    def figures(self) -> Iterator[Figure]:
        """The lines of the row."""
        if self.times:
            yield from self.times
        else:
            yield Figure(f"{self.program}.rate", self.label, "records/s", self.rate_aim)
        yield Figure(f"{self.program}.server_cpu", "  CPU of the server, a record", "us")


_COMMIT = (
    Figure("commit.p50", "commitSync of a poll, p50", "ms", 1.0),
    Figure("commit.p99", "commitSync of a poll, p99", "ms", 1.0),
)

ROWS: Final = (
    Row("producer", "ProducerPerformance, acks=all", 0.8),
    Row("implicit1", "Java share consumer, implicit, 1 member", 2.0),
    Row("implicit4", "Java share consumer, implicit, 4 members", 2.0),
    Row("explicit1", "Java share consumer, explicit and commitAsync, 1 member"),
    Row("explicit4", "Java share consumer, explicit and commitAsync, 4 members"),
    Row("commit", "commitSync of a poll", times=_COMMIT),
    Row("single1", "one by one: record_limit, commitSync, 1 member", 2.0),
    Row("single8", "one by one: record_limit, commitSync, 8 members", 2.0),
    Row("librdkafka_produce", "librdkafka producer, acks=all"),
    Row("librdkafka_consume", "librdkafka share consumer, implicit, 1 member"),
    Row("whole", "ShareConsumerPerformance: a new JVM, the whole run with joining"),
    Row("tls_producer", "TLS: ProducerPerformance, acks=all"),
    Row("tls_implicit1", "TLS: Java share consumer, implicit, 1 member"),
    Row("tls_implicit4", "TLS: Java share consumer, implicit, 4 members"),
)

FIGURES: Final = (
    *(figure for row in ROWS for figure in row.figures()),
    Figure("idle.cpu", "CPU for 1,000 share consumers that wait, of a core", "%", 10.0),
    Figure("memory.filled", "memory of the server with the topic filled", "MB"),
    Figure("memory.most", "memory of the server, maximum", "MB"),
)

NOT_YET_MEASURED: Final = (
    "SASL: ProducerPerformance, acks=all",
    "SASL: Java share consumer, implicit, 1 member",
    "SASL and ACLs: ProducerPerformance, acks=all",
    "SASL and ACLs: Java share consumer, implicit, 1 member",
)
"""Rows without a program that configures users on both systems."""
