"""Serves ShareService, for consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceServicer
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.consume.membership import send_heartbeat
from sharebroker_server.gateway.consume.stream import consume
from sharebroker_server.gateway.consume.unary import UnaryConsumer
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.validation import check_member_id, check_topic_names
from sharebroker_server.gateway.grpc.share_messages import (
    acknowledge_of,
    acknowledge_response,
    fetch_of,
    fetch_response,
)
from sharebroker_server.gateway.share.acknowledge import share_acknowledge
from sharebroker_server.gateway.share.fetch import share_fetch


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
        return consume(self._gateway, request_iterator, context.peer())

    @override
    async def Acquire(self, request: pb.AcquireRequest, context: Any) -> pb.AcquireResponse:
        return await self._unary.acquire(request, Deadline.of(context))

    @override
    async def Acknowledge(self, request: pb.AcknowledgeRequest, context: Any) -> pb.AcknowledgeResponse:
        return await self._unary.acknowledge(request, Deadline.of(context))

    @override
    async def ShareGroupHeartbeat(
        self, request: group.ShareGroupHeartbeatRequest, context: Any
    ) -> group.ShareGroupHeartbeatResponse:
        check_group_id(request.group_id)
        check_member_id(request.member_id)
        check_topic_names("subscribed_topic_names.names", request.subscribed_topic_names.names)
        if not request.client_host:
            request.client_host = context.peer()
        return await send_heartbeat(self._gateway.coordinators, request, Deadline.of(context))

    @override
    async def ShareFetch(self, request: pb.ShareFetchRequest, context: Any) -> pb.ShareFetchResponse:
        asked, deadline = fetch_of(request, context.peer()), Deadline.of(context)
        # A response after the deadline is lost, and with it the new session epoch.
        asked = asked._replace(max_wait_ms=min(asked.max_wait_ms, int(deadline.remaining() * 1000)))
        fetched = await share_fetch(self._gateway, asked, deadline)
        return fetch_response(fetched, self._gateway.lock_timeout_ms(request.group_id))

    @override
    async def ShareAcknowledge(
        self, request: pb.ShareAcknowledgeRequest, context: Any
    ) -> pb.ShareAcknowledgeResponse:
        asked = acknowledge_of(request, context.peer())
        results = await share_acknowledge(self._gateway, asked, Deadline.of(context))
        return acknowledge_response(results, self._gateway.lock_timeout_ms(request.group_id))
