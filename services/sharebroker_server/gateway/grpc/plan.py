"""The servicer of PlanService: authorizes its callers, and calls the planner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from typing_extensions import override

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.gateway.v1.plan_pb2_grpc import PlanServiceServicer
from sharebroker_server.gateway.authorization import TOPIC, Access
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.gateway.grpc.servicers import Rpc
from sharebroker_server.gateway.log_fetch import read_range
from sharebroker_server.gateway.plan.planner import Planner
from sharebroker_server.security.acl import AclOperation

Q = TypeVar("Q")
R = TypeVar("R")


def _topics(request: Any) -> list[str]:
    """Returns the topics that a request names, each once."""
    fields = ("topics", "commit", "accepted", "ranges", "columns", "verdicts")
    return list(dict.fromkeys(_topic_of(item) for field in fields for item in getattr(request, field, ())))


def _topic_of(item: Any) -> str:
    """Returns the topic of a name, a topic with partitions, a range, columns or a verdict."""
    if isinstance(item, str):
        return item
    if isinstance(item, pb.PlanVerdict):
        return item.range.topic
    return item.name if isinstance(item, pb.PlanRequest.Topic) else item.topic


def _rpc(function: Callable[[Planner, Q, str, Deadline], Awaitable[R]]) -> Rpc[Q, R]:
    """Returns a method that calls the planner for a caller that may consume the request's topics."""

    async def serve(self: PlanServicer, request: Q, context: Any) -> R:
        return await self.authorized(function, request, context)

    return cast("Rpc[Q, R]", serve)  # as the class binds it


class PlanServicer(PlanServiceServicer):
    """Translates requests to the planner."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._planner = Planner(gateway)

    OpenSession = _rpc(Planner.open_session)
    Plan = _rpc(Planner.plan)
    Renew = _rpc(Planner.renew)
    Stage = _rpc(Planner.stage)
    Commit = _rpc(Planner.commit)
    Release = _rpc(Planner.release)

    @override
    async def ReadRange(self, request: pb.ReadRangeRequest, context: Any) -> pb.ReadRangeResponse:
        access = Access(self._gateway, context)
        access.require(AclOperation.READ, TOPIC, request.range.topic)
        await access.admit_fetch(deadline_of(context))
        response = await read_range(self._gateway, request)
        access.charge_fetched(len(response.record_batches))
        return response

    async def authorized(
        self, function: Callable[[Planner, Q, str, Deadline], Awaitable[R]], request: Any, context: Any
    ) -> R:
        """Calls the planner, and ends the call if its caller loses the permission. Raises KafkaError."""
        access, deadline = Access(self._gateway, context), deadline_of(context)
        if access.unrestricted:
            return await function(self._planner, request, access.principal, deadline)
        session = getattr(request, "session", request)

        def check() -> None:
            access.require_read(session.group_id, topics)

        topics = _topics(request)
        check()
        return await access.run(
            check, _coroutine(function(self._planner, request, access.principal, deadline))
        )


async def _coroutine(work: Awaitable[R]) -> R:
    return await work
