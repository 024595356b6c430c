"""A driver of planned batches on raw stubs, like a Spark source without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from aiokafka.record.memory_records import MemoryRecords

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from tests.support.client import ACCEPT, TIMEOUT, Client, unique

Span = tuple[int, int]
Placed = tuple[int, int, int]
"""Partition, first and last offset."""


def places(ranges: Iterable[pb.PlannedRange]) -> list[Placed]:
    """Returns the positions of planned records."""
    return [(one.range.partition, one.range.first_offset, one.range.last_offset) for one in ranges]


def count(ranges: Iterable[Placed]) -> int:
    """Returns how many offsets they cover."""
    return sum(last - first + 1 for _, first, last in ranges)


def texts(batches: bytes) -> Iterator[tuple[int, str]]:
    """Returns offset and value of each record."""
    memory = MemoryRecords(batches)
    while memory.has_next():
        for record in memory.next_batch():
            yield record.offset, (record.value or b"").decode()


@dataclass
class Driver:
    """One session of a group on one topic."""

    client: Client
    group_id: str
    topic: str
    session: str = field(default_factory=lambda: unique("session"))
    epoch: int = 0
    left: list[tuple[int, int, int, str]] = field(default_factory=list)

    async def open(self) -> Driver:
        """Opens the session, which fences its former driver."""
        request = pb.OpenSessionRequest(group_id=self.group_id, session_id=self.session)
        self.epoch = (await self.client.plans.OpenSession(request, timeout=TIMEOUT)).epoch
        return self

    def another(self) -> Driver:
        """Returns a second driver of the same session."""
        return Driver(self.client, self.group_id, self.topic, self.session)

    async def plan(
        self,
        most: int = 1000,
        commit: Sequence[Placed] = (),
        *,
        kind: int = ACCEPT,
        wait: float = 0.0,
        batch: str = "",
    ) -> list[Placed]:
        """Commits, and plans the next batch; `left` keeps what was not committed."""
        request = pb.PlanRequest(
            session=self.key,
            topics=[pb.PlanRequest.Topic(name=self.topic)],
            commit=self.verdicts(commit, kind),
            max_records=most,
            max_wait_ms=round(wait * 1000),
            batch=batch,
        )
        response = await self.client.plans.Plan(request, timeout=TIMEOUT)
        self._note(response.left)
        return places(response.ranges)

    async def commit(self, ranges: Sequence[Placed], kind: int = ACCEPT, batch: str = "") -> None:
        """Commits alone."""
        request = pb.CommitRequest(session=self.key, commit=self.verdicts(ranges, kind), batch=batch)
        self._note((await self.client.plans.Commit(request, timeout=TIMEOUT)).left)

    async def stage(self, ranges: Sequence[Placed], kind: int, batch: str = "1") -> None:
        """Stages verdicts about records of the open batch."""
        request = pb.StageRequest(session=self.key, batch=batch, verdicts=self.verdicts(ranges, kind))
        await self.client.plans.Stage(request, timeout=TIMEOUT)

    async def renew(self, ranges: Sequence[Placed] = ()) -> int:
        """Renews the locks; returns their new deadline, in milliseconds."""
        request = pb.RenewRequest(
            session=self.key, topics=[self.topic], ranges=[self.range(*one) for one in ranges]
        )
        response = await self.client.plans.Renew(request, timeout=TIMEOUT)
        self._note(response.left)
        return response.lock_deadline_ms

    async def release(self) -> None:
        """Releases all planned records."""
        request = pb.ReleaseRequest(session=self.key, topics=[self.topic])
        await self.client.plans.Release(request, timeout=TIMEOUT)

    async def read(self, placed: Placed, *, committed: bool = False) -> list[str]:
        """Returns the values of a range, in order."""
        partition, first, last = placed
        found: list[str] = []
        while first <= last:
            request = pb.ReadRangeRequest(range=self.range(partition, first, last), committed=committed)
            response = await self.client.plans.ReadRange(request, timeout=TIMEOUT)
            found += [text for at, text in texts(response.record_batches) if first <= at <= last]
            if response.next_offset == first:
                break
            first = response.next_offset
        return found

    @property
    def key(self) -> pb.PlanSession:
        """Returns the key of the session in requests."""
        return pb.PlanSession(group_id=self.group_id, session_id=self.session, epoch=self.epoch)

    def range(self, partition: int, first: int, last: int) -> pb.PlanRange:
        """Returns a range of offsets of the topic."""
        return pb.PlanRange(topic=self.topic, partition=partition, first_offset=first, last_offset=last)

    def verdicts(self, ranges: Sequence[Placed], kind: int) -> list[pb.PlanVerdict]:
        """Returns the same acknowledgement for all ranges."""
        return [
            pb.PlanVerdict(range=self.range(*one), type=delivery.AcknowledgeType.ValueType(kind))
            for one in ranges
        ]

    def _note(self, left: Iterable[pb.PlanLeft]) -> None:
        self.left = [
            (
                one.range.partition,
                one.range.first_offset,
                one.range.last_offset,
                delivery.LeftReason.Name(one.reason).removeprefix("LEFT_REASON_").lower(),
            )
            for one in left
        ]
