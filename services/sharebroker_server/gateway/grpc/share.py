"""Serves ShareService: authorizes its callers, and calls `gateway.share` and `gateway.consume`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceServicer
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.authorization import GROUP, TOPIC, Access, Caller
from sharebroker_server.gateway.consume.membership import send_heartbeat
from sharebroker_server.gateway.consume.stream import consume
from sharebroker_server.gateway.consume.unary import UnaryConsumer
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.gateway.core.validation import check_lock, check_member_id, check_topic_names
from sharebroker_server.gateway.grpc import share_messages as messages
from sharebroker_server.gateway.share.acknowledge import share_acknowledge
from sharebroker_server.gateway.share.fetch import share_fetch
from sharebroker_server.security.acl import AclOperation
from sharebroker_server.security.principal import ANONYMOUS


class ShareServicer(ShareServiceServicer):
    """Translates requests to the functions of `gateway.share` and `gateway.consume`."""

    STREAMING: Final = ("Consume",)

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._unary = UnaryConsumer(gateway)

    @override
    def Consume(
        self, request_iterator: AsyncIterator[pb.ConsumeRequest], context: Any
    ) -> AsyncIterator[pb.ConsumeResponse]:
        return consume(Access(self._gateway, context), request_iterator, context.peer())

    @override
    async def Acquire(self, request: pb.AcquireRequest, context: Any) -> pb.AcquireResponse:
        return await self._unary.acquire(request, Access(self._gateway, context), deadline_of(context))

    @override
    async def Acknowledge(self, request: pb.AcknowledgeRequest, context: Any) -> pb.AcknowledgeResponse:
        return await self._unary.acknowledge(request, Access(self._gateway, context), deadline_of(context))

    @override
    async def ShareGroupHeartbeat(
        self, request: group.ShareGroupHeartbeatRequest, context: Any
    ) -> group.ShareGroupHeartbeatResponse:
        access, topics = Access(self._gateway, context), request.subscribed_topic_names.names
        check_group_id(request.group_id)
        check_member_id(request.member_id)
        check_topic_names("subscribed_topic_names.names", topics)
        access.require(AclOperation.READ, GROUP, request.group_id)
        access.require(AclOperation.DESCRIBE, TOPIC, *topics)
        if not request.client_host:
            request.client_host = context.peer()
        request.principal = access.principal or str(ANONYMOUS)
        return await send_heartbeat(self._gateway.coordinators, request, deadline_of(context))

    @override
    async def ShareFetch(self, request: pb.ShareFetchRequest, context: Any) -> pb.ShareFetchResponse:
        access, deadline = Access(self._gateway, context), deadline_of(context)
        check_lock("lock_ms", request.lock_ms, self._gateway.config.group_share_max_lock_ms)
        access.require(AclOperation.READ, GROUP, request.group_id)
        caller = Caller(context.peer(), access)
        await access.admit_fetch(deadline)
        fetch = messages.fetch_of(request, caller, access.principal)
        # A response after the deadline is lost, and with it the new session epoch.
        fetch = fetch._replace(max_wait_ms=min(fetch.max_wait_ms, int(deadline.remaining() * 1000)))
        fetched = await share_fetch(self._gateway, fetch, deadline)
        access.charge_fetched(sum(len(part.records) for part in fetched))
        lock_ms = request.lock_ms or self._gateway.catalog.lock_timeout_ms(request.group_id)
        return messages.fetch_response(fetched, lock_ms)

    @override
    async def ShareAcknowledge(
        self, request: pb.ShareAcknowledgeRequest, context: Any
    ) -> pb.ShareAcknowledgeResponse:
        access = Access(self._gateway, context)
        access.require(AclOperation.READ, GROUP, request.group_id)
        caller = Caller(context.peer(), access)
        acknowledgement = messages.acknowledge_of(request, caller, access.principal)
        results = await share_acknowledge(self._gateway, acknowledgement, deadline_of(context))
        return messages.acknowledge_response(results, self._gateway.catalog.lock_timeout_ms(request.group_id))
