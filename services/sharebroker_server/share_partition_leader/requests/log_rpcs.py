"""RPCs of partitions' logs: reading, offsets, deletion, transaction markers and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from typing_extensions import override

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceServicer,
)
from sharebroker_server.aio import Turns
from sharebroker_server.leader_calls import messages
from sharebroker_server.share_partition_leader.dead_letters.append import append_letters
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.share_partition_leader.log import requests
from sharebroker_server.share_partition_leader.log.fetch import LogFetch
from sharebroker_server.share_partition_leader.log.redrive import redrive_records
from sharebroker_server.share_partition_leader.log.retry import retry_records

R = TypeVar("R")

LETTERS_TIMEOUT: Final = 60.0
"""Seconds before the letters of another process time out; the caller has a limit of its own."""


class LogRpcs(SharePartitionLeaderServiceServicer):
    """The part of the service that is about logs. Errors of single partitions are fields of the response."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._turns = Turns()
        self.append_letters = partial(append_letters, leadership)

    @override
    async def Fetch(self, request: pb.FetchRequest, context: Any) -> pb.FetchResponse:
        return pb.FetchResponse(partitions=await LogFetch(self._leadership, request).run())

    @override
    async def AppendDeadLetters(
        self, request: pb.AppendDeadLettersRequest, context: Any
    ) -> pb.AppendDeadLettersResponse:
        result = await self.append_letters(messages.letters_call(request), LETTERS_TIMEOUT)
        return messages.letters_response(result)

    @override
    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: Any) -> pb.ListOffsetsResponse:
        level = request.isolation_level
        look_up = partial(requests.list_offsets, self._leadership, self._turns, level)
        return await self._each(request.partitions, pb.ListOffsetsResponse, look_up)

    @override
    async def DeleteRecords(self, request: pb.DeleteRecordsRequest, context: Any) -> pb.DeleteRecordsResponse:
        return await self._each(request.partitions, pb.DeleteRecordsResponse, requests.delete_records)

    @override
    async def RecallRecords(self, request: pb.RecallRecordsRequest, context: Any) -> pb.RecallRecordsResponse:
        recall = partial(requests.recall_record, self._leadership)
        return await self._each(request.partitions, pb.RecallRecordsResponse, recall)

    @override
    async def RetryRecords(self, request: pb.RetryRecordsRequest, context: Any) -> pb.RetryRecordsResponse:
        retry = partial(retry_records, self._leadership, self._turns, request)
        return await self._each(request.partitions, pb.RetryRecordsResponse, retry)

    @override
    async def RedriveRecords(
        self, request: pb.RedriveRecordsRequest, context: Any
    ) -> pb.RedriveRecordsResponse:
        redrive = partial(redrive_records, request)
        return await self._each(request.partitions, pb.RedriveRecordsResponse, redrive)

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
