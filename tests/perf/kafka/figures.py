"""What is measured on both, and how many times as much Sharebroker is to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Unit = Literal["records/s", "ms", "%"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table. `aim` is for the ratio to Kafka like for like: least for rates, most for times.

    Of a share of the machine it is for the figure itself: how much Kafka takes does not matter.
    """

    key: str
    label: str
    unit: Unit
    aim: float | None = None

    @property
    def absolute(self) -> bool:
        """Whether the aim is for the figure itself."""
        return self.unit == "%"

    def met(self, value: float) -> bool | None:
        """Whether a ratio, or the figure itself, reaches the aim; None without one."""
        if self.aim is None:
            return None
        return value >= self.aim if self.unit == "records/s" else value <= self.aim


FIGURES: Final = (
    Figure("producer.rate", "ProducerPerformance, acks=all", "records/s", 0.8),
    Figure("whole.rate", "ShareConsumerPerformance, the whole run with joining", "records/s", 1.5),
    Figure("steady1.rate", "Java share consumer, steady, 1 member", "records/s", 2.0),
    Figure("steady4.rate", "the same, 4 members", "records/s", 2.0),
    Figure("commit.p50", "commitSync of a poll, p50", "ms", 1.0),
    Figure("commit.p99", "the same, p99", "ms", 1.0),
    Figure("single.rate", "one by one: record_limit, max.poll.records=1, commitSync", "records/s", 2.0),
    Figure("librdkafka_produce.rate", "librdkafka producer, acks=all", "records/s"),
    Figure("librdkafka_consume.rate", "librdkafka share consumer, steady", "records/s"),
    Figure("idle.cpu", "CPU for 1,000 share consumers that wait, of a core", "%", 10.0),
)
