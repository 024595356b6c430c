"""The gRPC edge of the share-partition leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import AcquireMode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceServicer,
)
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.cluster.transaction_check import TransactionCheck
from sharebroker_server.share_calls.messages import (
    acknowledge_answers,
    acknowledge_call,
    acquire_answers,
    acquire_call,
    awaited,
    settle_answers,
    settle_call,
)
from sharebroker_server.share_partition_leader.config import ACKNOWLEDGE_TIMEOUT
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership
from sharebroker_server.share_partition_leader.log import requests
from sharebroker_server.share_partition_leader.log.fetch import LogFetch
from sharebroker_server.share_partition_leader.log.transaction_verification import TransactionalAppends
from sharebroker_server.share_partition_leader.requests.acknowledge import acknowledge
from sharebroker_server.share_partition_leader.requests.deliver_stream import DeliverySession
from sharebroker_server.share_partition_leader.requests.fetch import Fetch
from sharebroker_server.share_partition_leader.requests.inspection import inspect_records
from sharebroker_server.share_partition_leader.requests.local_calls import LocalShareCalls
from sharebroker_server.share_partition_leader.requests.reconcile import settle

LONGEST_WAIT_MS: Final = 60_000
"""Of AwaitRecords."""


class SharePartitionLeaderServicer(SharePartitionLeaderServiceServicer):
    """Decodes, calls, encodes; refusals of single partitions stand in band."""

    STREAMING: Final = ("Deliver",)

    def __init__(self, leadership: Leadership, catalog: MetadataCache, check: TransactionCheck) -> None:
        self._leadership = leadership
        self._catalog = catalog
        self._appends = TransactionalAppends(check)

    async def Deliver(
        self, requests: AsyncIterator[pb.DeliverRequest], context: Any
    ) -> AsyncIterator[pb.DeliverResponse]:
        """See the proto."""
        opening = await anext(requests, pb.DeliverRequest())
        _check_open(opening.open)
        session = DeliverySession(opening.open, self._leadership)
        session.take(opening)
        reader = asyncio.create_task(session.read(requests))
        try:
            async for response in session.responses(reader):
                yield response
        finally:
            session.close()
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def AcquireRecords(
        self, request: pb.AcquireRecordsRequest, context: Any
    ) -> pb.AcquireRecordsResponse:
        """See the proto."""
        _check_mode(request.acquire_mode)
        return pb.AcquireRecordsResponse(
            acquisition_lock_timeout_ms=self._lock_timeout(request.group_id),
            partitions=acquire_answers(await Fetch(acquire_call(request), self._leadership).run()),
        )

    async def AwaitRecords(self, request: pb.AwaitRecordsRequest, context: Any) -> pb.AwaitRecordsResponse:
        """See the proto."""
        wait = _seconds(request.max_wait_ms)
        watch = LocalShareCalls(self._leadership).watch(request.group_id, awaited(request))
        if watch is None:
            return pb.AwaitRecordsResponse(changed=True)
        try:
            return pb.AwaitRecordsResponse(changed=await watch.changes(wait))
        finally:
            watch.end()

    async def AcknowledgeRecords(
        self, request: pb.AcknowledgeRecordsRequest, context: Any
    ) -> pb.AcknowledgeRecordsResponse:
        """See the proto."""
        outcomes = await acknowledge(self._leadership, acknowledge_call(request), ACKNOWLEDGE_TIMEOUT)
        return pb.AcknowledgeRecordsResponse(
            acquisition_lock_timeout_ms=self._lock_timeout(request.group_id),
            partitions=acknowledge_answers(outcomes),
        )

    async def SettleRecords(self, request: pb.SettleRecordsRequest, context: Any) -> pb.SettleRecordsResponse:
        """See the proto."""
        settled = await settle(self._leadership, settle_call(request), ACKNOWLEDGE_TIMEOUT)
        return pb.SettleRecordsResponse(partitions=settle_answers(settled))

    async def ReleaseMember(self, request: pb.ReleaseMemberRequest, context: Any) -> pb.ReleaseMemberResponse:
        """See the proto."""
        partitions = {(p.topic_id, p.partition) for p in request.partitions}
        if request.member_id:
            released = self._leadership.release_member(
                request.group_id, request.member_id, partitions, request.session_id
            )
        else:
            released = await self._leadership.forget_group(request.group_id, partitions)
        return pb.ReleaseMemberResponse(released=released)

    async def Produce(self, request: pb.ProduceRequest, context: Any) -> pb.ProduceResponse:
        """See the proto."""
        answers = await requests.produce(self._leadership, self._appends, request)
        return pb.ProduceResponse(partitions=answers)

    async def Fetch(self, request: pb.FetchRequest, context: Any) -> pb.FetchResponse:
        """See the proto."""
        return pb.FetchResponse(partitions=await LogFetch(self._leadership, request).run())

    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: Any) -> pb.ListOffsetsResponse:
        """See the proto."""
        return pb.ListOffsetsResponse(partitions=await requests.list_offsets(self._leadership, request))

    async def DeleteRecords(self, request: pb.DeleteRecordsRequest, context: Any) -> pb.DeleteRecordsResponse:
        """See the proto."""
        return pb.DeleteRecordsResponse(partitions=await requests.delete_records(self._leadership, request))

    async def WriteTxnMarkers(
        self, request: pb.WriteTxnMarkersRequest, context: Any
    ) -> pb.WriteTxnMarkersResponse:
        """See the proto."""
        written = await requests.write_txn_markers(self._leadership, request)
        return pb.WriteTxnMarkersResponse(partitions=written)

    async def DescribeProducers(
        self, request: pb.DescribeProducersRequest, context: Any
    ) -> pb.DescribeProducersResponse:
        """See the proto."""
        described = await requests.describe_producers(self._leadership, request)
        return pb.DescribeProducersResponse(partitions=described)

    async def DescribeLogs(self, request: pb.DescribeLogsRequest, context: Any) -> pb.DescribeLogsResponse:
        """See the proto."""
        return pb.DescribeLogsResponse(partitions=await requests.describe_logs(self._leadership, request))

    async def InspectRecords(
        self, request: pb.InspectRecordsRequest, context: Any
    ) -> pb.InspectRecordsResponse:
        """See the proto."""
        return pb.InspectRecordsResponse(partitions=await inspect_records(self._leadership, request))

    def _lock_timeout(self, group_id: str) -> int:
        return self._catalog.group_config(group_id).share_record_lock_duration_ms


def _check_open(opening: pb.DeliverRequest.Open) -> None:
    if not opening.group_id or not opening.member_id:
        raise _refused("open", "The first message opens the stream: it names the group and the member.")
    _check_mode(opening.acquire_mode)


def _seconds(max_wait_ms: int) -> float:
    if not 0 <= max_wait_ms <= LONGEST_WAIT_MS:
        raise _refused("max_wait_ms", f"max_wait_ms is {max_wait_ms}; 0 to {LONGEST_WAIT_MS} is allowed.")
    return max_wait_ms / 1000


def _check_mode(mode: int) -> None:
    if mode not in tuple(AcquireMode):
        raise _refused("acquire_mode", f"{mode} is not an acquire mode.")


def _refused(field: str, fault: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, fault, violations=[FieldViolation(field, fault)])
