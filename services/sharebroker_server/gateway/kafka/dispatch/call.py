"""What a handler of the Kafka door gets and what it declares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.kafka.cluster_view.brokers import Brokers, View
from sharebroker_server.gateway.kafka.connection.rate_limited_log import Complaints
from sharebroker_server.gateway.kafka.connection.request_metrics import RequestCounts
from sharebroker_server.gateway.kafka.idle.coarse_timer import Ticks
from sharebroker_server.kafka_wire.message_classes import Message
from sharebroker_server.telemetry.metrics import Family, gauge

SHARE: Final = "share.version"

ROOM_FOR_RECORDS: Final = 64 * 1024 * 1024
"""Bytes of records in answers that are being made: every client could ask for 50 MB at the same time."""


class Fetches:
    """How many requests that wait for records are under way: they share ROOM_FOR_RECORDS."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def most_bytes(self) -> int:
        """What one of them may have at most."""
        return ROOM_FOR_RECORDS // max(self.number, 1)


@dataclass(frozen=True, slots=True)
class Door:
    """What every connection of the door shares. `features` are the finalized levels by name."""

    gateway: Gateway
    brokers: Brokers
    features: Mapping[str, int]
    complaints: Complaints = field(default_factory=Complaints)
    fetches: Fetches = field(default_factory=Fetches)
    counts: RequestCounts = field(default_factory=RequestCounts)
    ticks: Ticks = field(default_factory=Ticks)

    def families(self) -> Iterable[Family]:
        """See Collector."""
        yield from self.counts.families()
        yield gauge(
            "sharebroker_kafka_quiet_requests_waiting",
            "Requests of idle Kafka clients that wait without being served, nearly all of them for records.",
            [((), len(self.ticks))],
        )


@dataclass(slots=True)
class Client:
    """Who is at the other end. `connection` names the connection; the software is known from ApiVersions."""

    connection: str
    host: str
    software: str = ""

    @property
    def is_librdkafka(self) -> bool:
        """Whether it is librdkafka, by itself or below a client that is called otherwise."""
        return self.software.startswith(("librdkafka ", "confluent-kafka-"))


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `view` is who the brokers are while it is served; it has `waited` so many seconds."""

    door: Door
    client: Client
    client_id: str
    version: int
    request: Any
    view: View
    waited: float = 0.0

    @property
    def gateway(self) -> Gateway:
        """Sessions, and the ways to the other services."""
        return self.door.gateway

    def most_bytes(self, wanted: int) -> int:
        """So many bytes of records, of those that a fetch wants, while others fetch too."""
        return min(wanted, self.door.fetches.most_bytes)

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        """The time the request may take: its own, at most `REQUEST_TIMEOUT`.

        0 is what clients say who would not wait until a change shows everywhere: it is made all the same.
        """
        if not timeout_ms or timeout_ms < 0:
            return Deadline(REQUEST_TIMEOUT)
        return Deadline(min(timeout_ms / 1000, REQUEST_TIMEOUT))


Handler = Callable[[Call], Awaitable[Message | None]]
Refusal = Callable[[Call, KafkaError], Message]


@dataclass(frozen=True, slots=True)
class Joined:
    """How neighbouring requests of a connection are served in one step, in their order.

    `fit` tells whether the first of two calls may be served with the second, which came before it.
    """

    handle: Callable[[Sequence[Call]], Awaitable[list[Message | None]]]
    fit: Callable[[Call, Call], bool]


Say = Callable[[bytearray], None]
"""Sends an answer, its length in front."""

Serve = Callable[[bytes, float], None]
"""Serves a request like any other, its length in front, that has waited for so many seconds."""


class Expected(Protocol):
    """What an idle client is expected to ask next, and what it would be told, perhaps after a wait.

    Made with the last answer, what says the next one (`Say`), and what serves the request if something has
    happened (`Serve`).
    """

    @property
    def waiting(self) -> bool:
        """Whether the request has come, and waits here."""

    def take(self, data: bytes) -> bool:
        """Whether the bytes are that request, and nothing has happened: then it is answered, or waits."""

    def give_up(self) -> None:
        """Have the request that waits served, if there is one."""

    def drop(self) -> None:
        """Expect nothing more; a request that waits is forgotten."""


@dataclass(frozen=True, slots=True)
class Api:
    """How one API key is served, in `versions` (first and last).

    `handle` answers a request; None sends no answer (Produce with acks=0). `refuse` makes the answer of a
    request that failed as a whole. A request of an API that `waits` is cut off when its client goes away.
    Where requests can be `joined`, that is used instead of `handle`. `expected` tells what follows a request
    that was answered, where that can be told.
    """

    key: int
    versions: tuple[int, int]
    handle: Handler
    refuse: Refusal
    waits: bool = False
    feature: str | None = None
    joined: Joined | None = None
    expected: Callable[[Call, Message, Say, Serve], Expected | None] | None = None
