"""Members like Kafka's clients: they send heartbeats, and fetch their assignment over a share session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group_pb
from sharebroker_protocol.records.batches import decode
from sharebroker_protocol.records.record import AcknowledgementSink, AcquiredRecords
from tests.simulation.clients import ACKNOWLEDGE_TYPES, WAIT_MS, Consumer
from tests.testkit.checker.events import Applied, Delivered, Share, Verdict
from tests.testkit.simulator.outside import EPOCH

_BEAT: Final = 1.0
_AGAIN: Final = 0.1
_OPENS: Final = 0
_FENCED: Final = (ErrorCode.UNKNOWN_MEMBER_ID.name, ErrorCode.FENCED_MEMBER_EPOCH.name)

_NO_SINK: Final = cast("AcknowledgementSink", None)
"""Records are acknowledged by their offsets here."""


class Part(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: str
    partition: int


class Decided(NamedTuple):
    """A member's acknowledgement of a record, and the number of its request."""

    offset: int
    verdict: Verdict
    ask: int


Decisions = Mapping[Part, Sequence[Decided]]


class HeartbeatMember(Consumer):
    """A member that sends heartbeats while it consumes.

    `patient`: it joins again only once it is fenced, so that it keeps durable locks; else after any error.
    """

    patient = False

    async def run(self) -> None:
        """Consumes until it is cancelled."""
        self._assigned: frozenset[Part] = frozenset()
        beating = asyncio.create_task(self._beat())
        try:
            await self._consume()
        finally:
            beating.cancel()

    async def _consume(self) -> None:
        raise NotImplementedError

    async def _beat(self) -> None:
        """Sends heartbeats; joins again under its name."""
        epoch, client = 0, self._client
        while True:
            request = group_pb.ShareGroupHeartbeatRequest(
                group_id=self.group, member_id=self.member, member_epoch=epoch
            )
            if epoch == 0:
                request.subscribed_topic_names.names.append(self._topic)
            response = await client.call(ShareServiceStub, "ShareGroupHeartbeat", request)
            well = response is not None and not response.error_code
            if well:
                epoch = response.member_epoch
            elif not self.patient or client.outcome.startswith(_FENCED):
                epoch = 0
            if well and response.HasField("assignment"):
                parts = response.assignment.topic_partitions
                self._assigned = frozenset(Part(t.topic_id, n) for t in parts for n in t.partitions)
            await asyncio.sleep(_BEAT if well else _AGAIN)


class SessionConsumer(HeartbeatMember):
    """Acknowledges with its next fetch, or alone; after an error it opens a new session."""

    async def _consume(self) -> None:
        while True:
            await self._session(self._client.gateway())
            await asyncio.sleep(_AGAIN)

    async def _session(self, gateway: str) -> None:
        """Runs one session, at one gateway, until an error."""
        client, epoch, known, decided = self._client, _OPENS, frozenset[Part](), dict[Part, list[Decided]]()
        while self._assigned or epoch != _OPENS:
            if decided and client.random.random() < 0.2:
                alone = self._acknowledge_request(epoch, decided)
                response = await client.call(ShareServiceStub, "ShareAcknowledge", alone, at=gateway)
                decided, fetched = self._acknowledged(decided, response), None
            else:
                wanted = self._assigned
                fetch = self._fetch_request(epoch, decided, added=wanted - known, forgotten=known - wanted)
                response = fetched = await client.call(ShareServiceStub, "ShareFetch", fetch, at=gateway)
                decided, known = self._acknowledged(decided, response), wanted
            if response is None or response.error_code:
                return
            epoch += 1
            if fetched is not None:
                decided = await self._decided(fetched)

    def _fetch_request(
        self, epoch: int, decided: Decisions, *, added: Iterable[Part], forgotten: Iterable[Part]
    ) -> share.ShareFetchRequest:
        request = share.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_records=self._client.random.choice((1, 3, 6, 20)),
        )
        for part in sorted({*added, *decided}):
            fetch = share.ShareFetchRequest.FetchPartition(
                partition_index=part.partition, acknowledgement_batches=_batches(decided.get(part, ()))
            )
            request.topics.add(topic_id=part.topic_id, partitions=[fetch])
        for part in sorted(forgotten):
            request.forgotten_topics_data.add(topic_id=part.topic_id, partitions=[part.partition])
        return request

    def _acknowledge_request(self, epoch: int, decided: Decisions) -> share.ShareAcknowledgeRequest:
        request = share.ShareAcknowledgeRequest(
            group_id=self.group, member_id=self.member, share_session_epoch=epoch
        )
        for part, some in decided.items():
            partition = share.ShareAcknowledgeRequest.AcknowledgePartition(
                partition_index=part.partition, acknowledgement_batches=_batches(some)
            )
            request.topics.add(topic_id=part.topic_id, partitions=[partition])
        return request

    def _acknowledged(
        self, decided: Decisions, response: share.ShareFetchResponse | share.ShareAcknowledgeResponse | None
    ) -> dict[Part, list[Decided]]:
        """Records the applied acknowledgements: all of a partition, or none. Failed ones are not repeated."""
        for topic in response.responses if response is not None and not response.error_code else ():
            for data in topic.partitions:
                if isinstance(data, share.ShareAcknowledgeResponse.PartitionData):
                    rejected = data.error_code
                else:
                    rejected = data.acknowledge_error_code
                for one in (
                    decided.get(Part(topic.topic_id, data.partition_index), ()) if not rejected else ()
                ):
                    self._client.history.add(Applied(self._client.time(), one.ask))
        return {}

    async def _decided(self, fetched: share.ShareFetchResponse) -> dict[Part, list[Decided]]:
        """Returns the acknowledgements of the fetched records."""
        given = [record for topic in fetched.responses for record in self._given(topic)]
        for _, record in given:
            self._client.history.add(record)
        random = self._client.random
        if given and not self.steady and random.random() < 0.3:
            await asyncio.sleep(random.uniform(0.0, 3.0))
        decided: dict[Part, list[Decided]] = {}
        for part, record in given:
            verdict = self._mood()
            if verdict is not None and verdict is not Verdict.RENEW:  # renewals are sent without a fetch
                ask = self._asked(record.share, record.offset, record.token, verdict, by_token=False)
                decided.setdefault(part, []).append(Decided(record.offset, verdict, ask))
        return decided

    def _given(
        self, topic: share.ShareFetchResponse.ShareFetchableTopicResponse
    ) -> Iterable[tuple[Part, Delivered]]:
        for data in topic.partitions:
            where = Share(self.group, self._topic, data.partition_index)
            acquired = []
            for run in data.acquired_records:
                one = AcquiredRecords(
                    (topic.topic_id, self._topic),
                    data.partition_index,
                    (run.first_offset, run.last_offset),
                    _NO_SINK,
                )
                one.token, one.delivery_count = run.lock_token, run.delivery_count
                one.deadline = run.lock_deadline_ms / 1000 - EPOCH
                acquired.append(one)
            for record in decode(data.records, acquired).records:
                of = record.acquisition
                # A fenced member loses its locks, and detects that later.
                yield (
                    Part(topic.topic_id, data.partition_index),
                    Delivered(
                        self._client.time(),
                        where,
                        record.offset,
                        bytes(record.value or b"").decode(),
                        self.member,
                        of.token,
                        of.delivery_count,
                        of.deadline,
                        streamed=True,
                    ),
                )


def _batches(decided: Iterable[Decided]) -> list[share.AcknowledgementBatch]:
    return [
        share.AcknowledgementBatch(
            first_offset=one.offset,
            last_offset=one.offset,
            acknowledge_types=[ACKNOWLEDGE_TYPES[one.verdict]],
        )
        for one in sorted(decided)
    ]
