"""A client of raw gRPC stubs: the calls of any language, without the Python client's own logic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import grpc
from google.rpc import error_details_pb2, status_pb2

from sharebroker_protocol.address import CONNECT_TIMEOUT, Address
from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as gateway
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.dead_letters_pb2_grpc import DeadLetterServiceStub
from sharebroker_protocol.gateway.v1.plan_pb2_grpc import PlanServiceStub
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from tests.testkit.waiting import eventually

TIMEOUT = 20.0
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

_numbers = count(1)


def unique(prefix: str) -> str:
    """Returns a name that no other test uses."""
    return f"{prefix}-{next(_numbers)}-{uuid4().hex[:6]}"


@dataclass(frozen=True)
class Rejection:
    """The error of a call: Kafka's code, the invalid fields, the text."""

    code: ErrorCode
    fields: tuple[str, ...]
    text: str

    @property
    def retriable(self) -> bool:
        """Returns whether the same call may succeed later."""
        return self.code.retriable


async def rejection(call: Awaitable[Any]) -> Rejection:
    """Returns the error that ends a call; it must have ErrorInfo of our domain and the status of its code."""
    try:
        response = await call
    except grpc.aio.AioRpcError as failure:
        return rejection_of(failure)
    raise AssertionError(f"was not rejected: {response}")


def rejection_of(failure: grpc.aio.AioRpcError) -> Rejection:
    """Returns the rich error of a failed call. Raises AssertionError if it has none."""
    trailers = dict(failure.trailing_metadata() or ())
    assert "grpc-status-details-bin" in trailers, f"no details: {failure!r}"
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in status.details:
        for message in (info, bad):
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
    code = ErrorCode[info.reason]
    assert info.domain == "sharebroker"
    assert info.metadata["kafka_error_code"] == str(int(code))
    assert failure.code().name == code.status
    fields = tuple(violation.field for violation in bad.field_violations)
    return Rejection(code, fields, failure.details() or "")


class Client:
    """The stubs of one gateway and the steps of most tests. Calls raise grpc.aio.AioRpcError."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.admin = AdminServiceStub(channel)
        self.share = ShareServiceStub(channel)
        self.produce = ProduceServiceStub(channel)
        self.plans = PlanServiceStub(channel)
        self.dead_letters = DeadLetterServiceStub(channel)

    async def create(self, partitions: int = 1, *, name: str = "", **configs: str) -> tuple[str, str]:
        """Creates a topic; returns its name and id. Configs are written with underscores for dots."""
        name = name or unique("topic")
        asked = cluster.CreateTopicsRequest.Topic(
            name=name, num_partitions=partitions, configs={_dotted(k): v for k, v in configs.items()}
        )
        response = await self.admin.CreateTopics(cluster.CreateTopicsRequest(topics=[asked]), timeout=TIMEOUT)
        assert not response.topics[0].error_code, response
        return name, response.topics[0].topic_id

    async def known(self, topic: str) -> str:
        """Waits until the server has a topic that was created in another cluster; returns its id."""
        found: list[str] = []

        async def is_known() -> bool:
            response = await self.admin.Metadata(gateway.MetadataRequest(), timeout=TIMEOUT)
            found[:] = [each.topic_id for each in response.topics if each.name == topic]
            return bool(found)

        await eventually(is_known, 60.0)
        return found[0]

    async def delete(self, topic: str) -> None:
        """Deletes a topic."""
        asked = cluster.DeleteTopicsRequest.Topic(name=topic)
        response = await self.admin.DeleteTopics(cluster.DeleteTopicsRequest(topics=[asked]), timeout=TIMEOUT)
        assert not response.topics[0].error_code, response

    async def group(self, **configs: str) -> str:
        """Returns the name of a new group that reads from the start."""
        group_id = unique("group")
        settings = {"share.auto.offset.reset": "earliest"} | {_dotted(k): v for k, v in configs.items()}
        asked = cluster.IncrementalAlterConfigsRequest.Resource(
            resource_type=cluster.RESOURCE_TYPE_GROUP,
            resource_name=group_id,
            configs=[
                cluster.IncrementalAlterConfigsRequest.Config(name=k, value=v) for k, v in settings.items()
            ],
        )
        request = cluster.IncrementalAlterConfigsRequest(resources=[asked])
        response = await self.admin.IncrementalAlterConfigs(request, timeout=TIMEOUT)
        assert not response.responses[0].error_code, response
        return group_id

    async def configure_broker(self, name: str, value: str) -> None:
        """Changes a property of all processes while they run."""
        asked = cluster.IncrementalAlterConfigsRequest.Resource(
            resource_type=cluster.RESOURCE_TYPE_BROKER,
            configs=[cluster.IncrementalAlterConfigsRequest.Config(name=name, value=value)],
        )
        request = cluster.IncrementalAlterConfigsRequest(resources=[asked])
        response = await self.admin.IncrementalAlterConfigs(request, timeout=TIMEOUT)
        assert not response.responses[0].error_code, response

    async def publish(
        self, topic: str, texts: Iterable[str], *, partition: int | None = None, timeout: float = TIMEOUT
    ) -> list[tuple[int, int]]:
        """Publishes records; returns partition and offset of each."""
        records = [produce.PublishRecord(text=text, partition=partition) for text in texts]
        request = produce.PublishRequest(topic=topic, records=records)
        response = await self.produce.Publish(request, timeout=timeout)
        return [(position.partition, position.offset) for position in response.positions]

    async def acquire(
        self,
        group_id: str,
        topic: str,
        records: int,
        *,
        member: str = "",
        wait: float = 5.0,
        timeout: float = TIMEOUT,
    ) -> share.AcquireResponse:
        """Acquires records once."""
        request = share.AcquireRequest(
            group_id=group_id,
            topics=[topic],
            max_records=records,
            max_wait_ms=round(wait * 1000),
            as_text=True,
            member_id=member,
        )
        return await self.share.Acquire(request, timeout=timeout)

    async def acquire_all(
        self, group_id: str, topic: str, records: int, member: str
    ) -> list[share.ShareRecord]:
        """Acquires until this many records arrived."""
        got: list[share.ShareRecord] = []
        async with asyncio.timeout(TIMEOUT):
            while len(got) < records:
                got += (await self.acquire(group_id, topic, records - len(got), member=member)).records
        return got

    async def acknowledge(
        self,
        group_id: str,
        member: str,
        records: Sequence[share.ShareRecord],
        kind: int = ACCEPT,
        *,
        delay_ms: int | None = None,
        timeout: float = TIMEOUT,
    ) -> list[ErrorCode]:
        """Acknowledges records with their lock tokens; returns the code of each result."""
        request = share.AcknowledgeRequest(
            group_id=group_id,
            member_id=member,
            acknowledgements=[decision(record, kind, delay_ms) for record in records],
        )
        response = await self.share.Acknowledge(request, timeout=timeout)
        return [ErrorCode(result.error_code) for result in response.results]

    async def heartbeat(
        self, group_id: str, member: str, epoch: int, topics: Sequence[str] = ()
    ) -> groups.ShareGroupHeartbeatResponse:
        """Sends one heartbeat."""
        names = groups.TopicNames(names=topics) if topics else None
        request = groups.ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member, member_epoch=epoch, subscribed_topic_names=names
        )
        return await self.share.ShareGroupHeartbeat(request, timeout=TIMEOUT)

    async def inspect(
        self, group_id: str, topic_id: str, partition: int = 0
    ) -> state.InspectShareGroupStateResponse:
        """Returns the stored state of a share-partition; log and memory must agree."""
        request = state.InspectShareGroupStateRequest(
            group_id=group_id, topic_id=topic_id, partition=partition
        )
        response = await self.admin.InspectShareGroupState(request, timeout=TIMEOUT)
        assert response.consistent
        return response

    async def finished(self, group_id: str, topic_id: str, partition: int = 0) -> set[int]:
        """Returns the offsets in a terminal state, as stored."""
        folded = (await self.inspect(group_id, topic_id, partition)).folded
        done = set(range(max(folded.start_offset, 0)))
        for batch in folded.state_batches:
            if batch.delivery_state in (2, 4):
                done |= set(range(batch.first_offset, batch.last_offset + 1))
        return done


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Client]:
    """Provides a client of the gateway at an address, or at `tls://…` with certificates and a user.

    It reconnects at once when the gateway returns.
    """
    options = [
        ("grpc.initial_reconnect_backoff_ms", 50),
        CONNECT_TIMEOUT,
        ("grpc.max_reconnect_backoff_ms", 200),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ]
    async with Address.parse(address).open(options) as channel:
        yield Client(channel)


def decision(
    record: share.ShareRecord, kind: int = ACCEPT, delay_ms: int | None = None
) -> share.AcknowledgeRequest.Decision:
    """Returns the acknowledgement of an acquired record."""
    return share.AcknowledgeRequest.Decision(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        lock_token=record.lock_token,
        type=delivery.AcknowledgeType.ValueType(kind),
        delay_ms=delay_ms,
    )


def _dotted(name: str) -> str:
    return name.replace("_", ".")
