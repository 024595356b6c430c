"""The gRPC service of the share-partition leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeVar

from typing_extensions import override

from sharebroker_protocol.errors import invalid_field
from sharebroker_protocol.model import AcquireMode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceServicer,
)
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.leader_calls import messages
from sharebroker_server.leader_calls.values import DeliverStream
from sharebroker_server.routing.transaction_check import TransactionCheck
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.share_partition_leader.log import requests
from sharebroker_server.share_partition_leader.log.append import Appends
from sharebroker_server.share_partition_leader.log.fetch import LogFetch
from sharebroker_server.share_partition_leader.requests.local_leader import LocalLeader

ACKNOWLEDGE_TIMEOUT: Final = 60.0
"""Seconds before acknowledgements from another process time out; the caller has a limit of its own."""

R = TypeVar("R")

LONGEST_WAIT_MS: Final = 60_000
"""Limit of the wait of AwaitRecords."""


class SharePartitionLeaderServicer(SharePartitionLeaderServiceServicer):
    """Decodes messages, calls `LocalLeader` or `Leadership`, encodes results.

    Errors of single partitions are fields of the response.
    """

    STREAMING: Final = ("Deliver",)

    def __init__(self, leadership: Leadership, catalog: MetadataCache, check: TransactionCheck) -> None:
        self._leadership = leadership
        self._catalog = catalog
        self.calls = LocalLeader(leadership, Appends(leadership, check))

    @override
    def Deliver(
        self, requests: AsyncIterator[pb.DeliverRequest], context: Any
    ) -> AsyncIterator[pb.DeliverResponse]:
        return _deliver(self.calls, requests)

    @override
    async def AcquireRecords(
        self, request: pb.AcquireRecordsRequest, context: Any
    ) -> pb.AcquireRecordsResponse:
        _check_mode(request.acquire_mode)
        return pb.AcquireRecordsResponse(
            acquisition_lock_timeout_ms=self._lock_timeout(request.group_id),
            partitions=messages.acquire_response(await self.calls.acquire(messages.acquire_call(request))),
        )

    @override
    async def AwaitRecords(self, request: pb.AwaitRecordsRequest, context: Any) -> pb.AwaitRecordsResponse:
        wait = _seconds(request.max_wait_ms)
        watch = self.calls.watch(request.group_id, messages.partition_keys(request.partitions))
        if watch is None:
            return pb.AwaitRecordsResponse(changed=True)
        try:
            return pb.AwaitRecordsResponse(changed=await watch.changes(wait))
        finally:
            watch.end()

    @override
    async def AcknowledgeRecords(
        self, request: pb.AcknowledgeRecordsRequest, context: Any
    ) -> pb.AcknowledgeRecordsResponse:
        results = await self.calls.acknowledge(messages.acknowledge_call(request), ACKNOWLEDGE_TIMEOUT)
        return pb.AcknowledgeRecordsResponse(
            acquisition_lock_timeout_ms=self._lock_timeout(request.group_id),
            partitions=messages.acknowledge_response(results),
        )

    @override
    async def ReconcileRecords(
        self, request: pb.ReconcileRecordsRequest, context: Any
    ) -> pb.ReconcileRecordsResponse:
        results = await self.calls.reconcile(messages.reconcile_call(request), ACKNOWLEDGE_TIMEOUT)
        return pb.ReconcileRecordsResponse(partitions=messages.reconcile_response(results))

    @override
    async def ReleaseMember(self, request: pb.ReleaseMemberRequest, context: Any) -> pb.ReleaseMemberResponse:
        partitions = {(p.topic_id, p.partition) for p in request.partitions}
        if request.member_id:
            released = self._leadership.release_member(
                request.group_id, request.member_id, partitions, request.session_id
            )
        else:
            released = await self._leadership.forget_group(request.group_id, partitions)
        return pb.ReleaseMemberResponse(released=released)

    @override
    async def Produce(self, request: pb.ProduceRequest, context: Any) -> pb.ProduceResponse:
        results = await self.calls.append(messages.append_call(request), None)
        return pb.ProduceResponse(partitions=messages.produce_response(results))

    @override
    async def Fetch(self, request: pb.FetchRequest, context: Any) -> pb.FetchResponse:
        return pb.FetchResponse(partitions=await LogFetch(self._leadership, request).run())

    @override
    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: Any) -> pb.ListOffsetsResponse:
        look_up = partial(requests.list_offsets, request.isolation_level)
        return await self._each(request.partitions, pb.ListOffsetsResponse, look_up)

    @override
    async def DeleteRecords(self, request: pb.DeleteRecordsRequest, context: Any) -> pb.DeleteRecordsResponse:
        return await self._each(request.partitions, pb.DeleteRecordsResponse, requests.delete_records)

    @override
    async def WriteTxnMarkers(
        self, request: pb.WriteTxnMarkersRequest, context: Any
    ) -> pb.WriteTxnMarkersResponse:
        return await self._each(request.markers, pb.WriteTxnMarkersResponse, requests.write_txn_marker)

    @override
    async def DescribeProducers(
        self, request: pb.DescribeProducersRequest, context: Any
    ) -> pb.DescribeProducersResponse:
        return await self._each(request.partitions, pb.DescribeProducersResponse, requests.describe_producers)

    @override
    async def DescribeLogs(self, request: pb.DescribeLogsRequest, context: Any) -> pb.DescribeLogsResponse:
        return await self._each(request.partitions, pb.DescribeLogsResponse, requests.describe_log)

    @override
    async def InspectRecords(
        self, request: pb.InspectRecordsRequest, context: Any
    ) -> pb.InspectRecordsResponse:
        inspect = partial(requests.inspect_records, request.group_id)
        return await self._each(request.partitions, pb.InspectRecordsResponse, inspect)

    async def _each(
        self, partitions: Iterable[Any], response: Callable[..., R], act: Callable[..., Any]
    ) -> R:
        """The response of an RPC that applies `act` to each partition."""
        make = response.Partition  # type: ignore[attr-defined]  # every such response has this message
        return response(partitions=await requests.each(self._leadership, partitions, make, act))

    def _lock_timeout(self, group_id: str) -> int:
        return self._catalog.group_config(group_id).share_record_lock_duration_ms


async def _deliver(
    leader: LocalLeader, requests: AsyncIterator[pb.DeliverRequest]
) -> AsyncIterator[pb.DeliverResponse]:
    opening = await anext(requests, pb.DeliverRequest())
    _check_open(opening.open)
    stream = leader.deliver(messages.deliver_open(opening.open))
    reader: asyncio.Task[None] | None = None
    try:
        await stream.send(messages.deliver_input(opening))
        reader = asyncio.create_task(_read(stream, requests))
        async with aclosing(stream.outputs()) as outputs:
            async for output in outputs:
                response = pb.DeliverResponse()
                messages.fill_delivered(response, output)
                yield response
        await reader
    finally:
        stream.close()
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


async def _read(stream: DeliverStream, requests: AsyncIterator[pb.DeliverRequest]) -> None:
    try:
        async for request in requests:
            await stream.send(messages.deliver_input(request))
    finally:
        stream.finish()


def _check_open(opening: pb.DeliverRequest.Open) -> None:
    if not opening.group_id or not opening.member_id:
        raise invalid_field(
            "open", "The first message opens the stream; it needs a group id and a member id."
        )
    _check_mode(opening.acquire_mode)


def _seconds(max_wait_ms: int) -> float:
    if not 0 <= max_wait_ms <= LONGEST_WAIT_MS:
        raise invalid_field(
            "max_wait_ms", f"max_wait_ms is {max_wait_ms}; 0 to {LONGEST_WAIT_MS} is allowed."
        )
    return max_wait_ms / 1000


def _check_mode(mode: int) -> None:
    if mode not in tuple(AcquireMode):
        raise invalid_field("acquire_mode", f"{mode} is not an acquire mode.")
