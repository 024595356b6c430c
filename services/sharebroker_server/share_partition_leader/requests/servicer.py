"""The gRPC service of the share-partition leader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.leader_calls import messages
from sharebroker_server.routing.transaction_check import TransactionCheck
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.share_partition_leader.log.append import Appends
from sharebroker_server.share_partition_leader.requests.checks import check_mode, wait_seconds
from sharebroker_server.share_partition_leader.requests.deliver_rpc import deliver
from sharebroker_server.share_partition_leader.requests.local_leader import LocalLeader
from sharebroker_server.share_partition_leader.requests.log_rpcs import LogRpcs

ACKNOWLEDGE_TIMEOUT: Final = 60.0
"""Seconds before acknowledgements from another process time out; the caller has a limit of its own."""


class SharePartitionLeaderServicer(LogRpcs):
    """Decodes messages, calls `LocalLeader` or `Leadership`, encodes results.

    Errors of single partitions are fields of the response.
    """

    STREAMING: Final = ("Deliver",)

    def __init__(self, leadership: Leadership, catalog: MetadataCache, check: TransactionCheck) -> None:
        super().__init__(leadership)
        self._catalog = catalog
        self.calls = LocalLeader(leadership, Appends(leadership, check).append, self.append_letters)

    @override
    def Deliver(
        self, requests: AsyncIterator[pb.DeliverRequest], context: Any
    ) -> AsyncIterator[pb.DeliverResponse]:
        return deliver(self.calls, requests)

    @override
    async def AcquireRecords(
        self, request: pb.AcquireRecordsRequest, context: Any
    ) -> pb.AcquireRecordsResponse:
        check_mode(request.acquire_mode)
        return pb.AcquireRecordsResponse(
            acquisition_lock_timeout_ms=self._lock_timeout(request.group_id),
            partitions=messages.acquire_response(await self.calls.acquire(messages.acquire_call(request))),
        )

    @override
    async def AwaitRecords(self, request: pb.AwaitRecordsRequest, context: Any) -> pb.AwaitRecordsResponse:
        wait = wait_seconds(request.max_wait_ms)
        watch = await self.calls.watch(request.group_id, messages.partition_keys(request.partitions))
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
            principal = request.principal if request.HasField("principal") else None
            released = self._leadership.release_member(
                request.group_id, request.member_id, partitions, request.session_id, principal
            )
        else:
            released = await self._leadership.forget_group(request.group_id, partitions)
        return pb.ReleaseMemberResponse(released=released)

    @override
    async def Produce(self, request: pb.ProduceRequest, context: Any) -> pb.ProduceResponse:
        results = await self.calls.append(messages.append_call(request), None)
        return pb.ProduceResponse(partitions=messages.produce_response(results))

    def _lock_timeout(self, group_id: str) -> int:
        return self._catalog.group_config(group_id).share_record_lock_duration_ms
