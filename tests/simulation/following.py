"""A topic whose records are in a Kafka cluster, which loses some, and the judgement of its deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from tests.simulation.clients import Client
from tests.simulation.history import History
from tests.simulation.plan import Temper
from tests.testkit.checker.events import (
    Applied,
    CallBegan,
    CallEnded,
    Delivered,
    Event,
    Kept,
    Requested,
    Unjudged,
    Verdict,
)
from tests.testkit.kafka_partition import KafkaPartition
from tests.testkit.simulator.outside import EPOCH

ELSEWHERE: Final = "elsewhere"
GROUP: Final = "following"

CONFIGS: Final = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
"""Lost responses count as deliveries; so many are not lost."""

TEMPER: Final[Temper] = {Verdict.ACCEPT: 60, Verdict.RELEASE: 15, Verdict.REJECT: 10, None: 15}

_PACE: Final = 4.0
_ELECTED: Final = 1 / 4
"""The share of the steps in which another leader is elected; the others append records."""

_LOST: Final = (0, 1, 1, 2, 3, 6)
"""How many records an election loses."""

_DEPOSED: Final = 1 / 3
"""The share of the elections that the former leader does not notice at once."""

_LAST: Final = 3
"""Records that are appended after the faults."""

_AGAIN: Final = 0.2
_PEACE: Final = 40.0
"""Seconds in which they are delivered."""

_Record = tuple[int, str]
"""Offset and value."""


class Observed(History):
    """What members of the group observe. The general rules do not hold: offsets may have several records."""

    def __init__(self, history: History) -> None:
        super().__init__(history.checker, lambda: 0.0)
        self.events = history.events
        self.delivered: dict[_Record, int] = {}
        """The newest lock token of each record that a member received."""
        self.finished: dict[_Record, int] = {}
        """The lock token with which a member finished a record, confirmed."""
        self._history = history
        self._values: dict[tuple[int, int], str] = {}
        self._requests: dict[int, Requested] = {}

    def add(self, event: Event) -> None:
        """Adds an event for readers of the history; calls are judged as others are."""
        self._history.add(event if isinstance(event, CallBegan | CallEnded) else Unjudged(event.at, event))
        if isinstance(event, Delivered):
            record = (event.offset, event.value)
            self._values[event.offset, event.token] = event.value
            self.delivered[record] = max(event.token, self.delivered.get(record, 0))
        elif isinstance(event, Requested):
            self._requests[event.request_id] = event
        elif isinstance(event, Applied) and (request := self._requests[event.request_id]).verdict.final:
            value = self._values[request.offset, request.token]
            self.finished.setdefault((request.offset, value), request.token)

    def log(self, what: str) -> None:
        """Records a step of the run."""
        self._history.log(what)

    def judge(self, kept: Kept) -> None:
        """Adds the judgement."""
        self._history.add(kept)


class Kafka:
    """Appends records to the partition, and elects leaders that lack some."""

    def __init__(self, partition: KafkaPartition, client: Client, observed: Observed) -> None:
        self._partition = partition
        self._client = client
        self._observed = observed
        self._appended = 0

    async def run(self, until: float) -> None:
        """Changes the partition until a time."""
        client, random = self._client, self._client.random
        while (at := client.time() + random.expovariate(_PACE)) < until:
            await asyncio.sleep(at - client.time())
            if self._partition.deposed and random.random() < 1 / 2:
                self._append(1, next(iter(self._partition.deposed)))
                self._partition.deposed.clear()
            if random.random() < _ELECTED:
                self._elect()
            else:
                self._append(random.randint(1, 4))

    async def finish(self) -> None:
        """Judges what was delivered of the records that are left after the faults."""
        self._partition.deposed.clear()
        self._append(_LAST)
        client, kept = self._client, [*self._records()]
        deadline = client.time() + _PEACE
        delivered, finished = self._observed.delivered, self._observed.finished
        missing = kept
        while missing and client.time() < deadline:
            await asyncio.sleep(_AGAIN)
            missing = [record for record in kept if record not in delivered]
        repeated = [record for record in kept if delivered.get(record, 0) > finished.get(record, 1 << 62)]
        self._observed.judge(Kept(client.time(), ELSEWHERE, tuple(missing), tuple(repeated)))

    def _append(self, number: int, node: int | None = None) -> None:
        """Appends records, each in a batch, so that an election may lose any of them."""
        for _ in range(number):
            builder = BatchBuilder(CODECS["none"], 1 << 20)
            time_ms = int((EPOCH + self._client.time()) * 1000)
            builder.append(time_ms, None, f"{ELSEWHERE}-{self._appended}".encode())
            self._partition.append(builder.build(), node)
            self._appended += 1

    def _elect(self) -> None:
        partition, random = self._partition, self._client.random
        node, end = random.randrange(len(partition.replicas)), partition.log.end
        keeps = max(end - random.choice(_LOST), 0)
        deposed = random.random() < _DEPOSED
        self._client.history.log(f"kafka-{node} leads {ELSEWHERE} from {keeps} on; it had {end} records")
        partition.elect(node, keeps, deposed=deposed)

    def _records(self) -> Iterator[_Record]:
        for batch in self._partition.log.batches:
            for record in DefaultRecordBatch(batch.data):
                yield record.offset, record.value.decode()
