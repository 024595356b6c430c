"""The servicers of AdminService, ProduceService and PlanService, made from functions of the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from typing_extensions import override

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.gateway.v1 import admin_pb2, plan_pb2, produce_pb2
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceServicer
from sharebroker_protocol.gateway.v1.plan_pb2_grpc import PlanServiceServicer
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceServicer
from sharebroker_server.gateway.admin.cluster import find_coordinator, metadata
from sharebroker_server.gateway.admin.groups import (
    alter_offsets,
    delete_groups,
    delete_offsets,
    describe_groups,
    describe_offsets,
    list_groups,
)
from sharebroker_server.gateway.admin.partitions import (
    delete_records,
    inspect_records,
    inspect_state,
    list_offsets,
)
from sharebroker_server.gateway.admin.topics import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
)
from sharebroker_server.gateway.admin.users import alter_users, describe_users
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.gateway.log_fetch import read_range
from sharebroker_server.gateway.plan.planner import Planner
from sharebroker_server.gateway.produce.append import produce, produce_stream
from sharebroker_server.gateway.produce.publish import publish
from sharebroker_server.gateway.produce.transactions import end_txn, init_producer_id

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")
Q_contra = TypeVar("Q_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Servicer(Generic[T]):
    """The base of servicers whose methods `rpc` makes from functions or methods of `target`."""

    def __init__(self, target: T) -> None:
        self._target = target


class Rpc(Protocol[Q_contra, R_co]):
    """A bound method that serves a unary call."""

    def __call__(self, request: Q_contra, context: Any) -> Coroutine[Any, Any, R_co]:
        """Returns the response."""
        ...


def rpc(function: Callable[[T, Q, Deadline], Awaitable[R]]) -> Rpc[Q, R]:
    """Returns a method that calls `function` with the target, the request and the deadline of the call."""

    async def serve(self: Servicer[T], request: Q, context: Any) -> R:
        return await function(self._target, request, deadline_of(context))

    return cast("Rpc[Q, R]", serve)  # as the class binds it


class AdminServicer(Servicer[Gateway], AdminServiceServicer):
    """Translates requests to the functions of `gateway.admin`."""

    @override
    async def FindCoordinator(
        self, request: admin_pb2.FindCoordinatorRequest, context: Any
    ) -> admin_pb2.FindCoordinatorResponse:
        return await find_coordinator(self._target, request)

    @override
    async def DescribeConfigs(
        self, request: admin_pb2.DescribeConfigsRequest, context: Any
    ) -> admin_pb2.DescribeConfigsResponse:
        return describe_configs(self._target, request)

    @override
    async def DescribeUserScramCredentials(
        self, request: admin_pb2.DescribeUserScramCredentialsRequest, context: Any
    ) -> admin_pb2.DescribeUserScramCredentialsResponse:
        return describe_users(self._target, request)

    Metadata = rpc(metadata)
    CreateTopics = rpc(create_topics)
    DeleteTopics = rpc(delete_topics)
    CreatePartitions = rpc(create_partitions)
    IncrementalAlterConfigs = rpc(alter_configs)
    ListOffsets = rpc(list_offsets)
    DeleteRecords = rpc(delete_records)
    ListGroups = rpc(list_groups)
    ShareGroupDescribe = rpc(describe_groups)
    DeleteGroups = rpc(delete_groups)
    DescribeShareGroupOffsets = rpc(describe_offsets)
    AlterShareGroupOffsets = rpc(alter_offsets)
    DeleteShareGroupOffsets = rpc(delete_offsets)
    InspectRecords = rpc(inspect_records)
    InspectShareGroupState = rpc(inspect_state)
    AlterUserScramCredentials = rpc(alter_users)


class ProduceServicer(Servicer[Gateway], ProduceServiceServicer):
    """Translates requests to the functions of `gateway.produce`."""

    STREAMING: Final = ("ProduceStream",)

    Publish = rpc(publish)
    Produce = rpc(produce)
    InitProducerId = rpc(init_producer_id)
    EndTxn = rpc(end_txn)

    @override
    def ProduceStream(
        self,
        request_iterator: AsyncIterator[produce_pb2.ProduceStreamRequest],
        context: Any,
    ) -> AsyncIterator[produce_pb2.ProduceStreamResponse]:
        return produce_stream(self._target, request_iterator)


class PlanServicer(Servicer[Planner], PlanServiceServicer):
    """Translates requests to the planner."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(Planner(gateway))
        self._gateway = gateway

    OpenSession = rpc(Planner.open_session)
    Plan = rpc(Planner.plan)
    Renew = rpc(Planner.renew)
    Stage = rpc(Planner.stage)
    Commit = rpc(Planner.commit)
    Release = rpc(Planner.release)

    @override
    async def ReadRange(self, request: plan_pb2.ReadRangeRequest, context: Any) -> plan_pb2.ReadRangeResponse:
        return await read_range(self._gateway, request)
