"""Serves PlanService, for engines that plan their batches."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.gateway.v1.plan_pb2_grpc import PlanServiceServicer
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.plan.planner import Planner
from sharebroker_server.gateway.plan.read_range import read_range
from sharebroker_server.gateway.plan.sessions import open_session


class PlanServicer(PlanServiceServicer):
    """Translates requests to the planner."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._planner = Planner(gateway)

    @override
    async def OpenSession(self, request: pb.OpenSessionRequest, context: Any) -> pb.OpenSessionResponse:
        key = SessionKey(request.group_id, request.session_id)
        epoch = await open_session(self._gateway, key, Deadline.of(context))
        lock_duration_ms = self._gateway.lock_timeout_ms(request.group_id)
        return pb.OpenSessionResponse(epoch=epoch, lock_duration_ms=lock_duration_ms)

    @override
    async def Plan(self, request: pb.PlanRequest, context: Any) -> pb.PlanResponse:
        return await self._planner.plan(request, Deadline.of(context))

    @override
    async def Renew(self, request: pb.RenewRequest, context: Any) -> pb.RenewResponse:
        return await self._planner.renew(request, Deadline.of(context))

    @override
    async def Stage(self, request: pb.StageRequest, context: Any) -> pb.StageResponse:
        await self._planner.stage(request, Deadline.of(context))
        return pb.StageResponse()

    @override
    async def Commit(self, request: pb.CommitRequest, context: Any) -> pb.CommitResponse:
        return await self._planner.commit(request, Deadline.of(context))

    @override
    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseResponse:
        await self._planner.release(request, Deadline.of(context))
        return pb.ReleaseResponse()

    @override
    async def ReadRange(self, request: pb.ReadRangeRequest, context: Any) -> pb.ReadRangeResponse:
        return await read_range(self._gateway, request)
