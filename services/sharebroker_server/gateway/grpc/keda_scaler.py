"""Serves KEDA's external scaler: scales workers by the lag of the share group that a trigger names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.keda import externalscaler_pb2 as pb
from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerServicer
from sharebroker_server.gateway.admin.groups import group_lag
from sharebroker_server.gateway.authorization import GROUP, TOPIC, Access
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.gateway.core.keda_trigger import trigger_of
from sharebroker_server.security.acl import AclOperation

CHECK_INTERVAL: Final = 2.0
"""Seconds between two checks of the lag for a stream."""


class _Rights:
    """What a trigger's caller may describe: the group, and the topic or else the topics of the group."""

    def __init__(self, access: Access, request: pb.ScaledObjectRef) -> None:
        self.trigger = trigger_of(request.scalerMetadata)
        self._access = access

    def check(self) -> None:
        """Raises GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED."""
        self._access.require(AclOperation.DESCRIBE, GROUP, self.trigger.group_id)
        if self.trigger.topic:
            self._access.require(AclOperation.DESCRIBE, TOPIC, self.trigger.topic)

    def rechecked(self, stopping: asyncio.Event) -> AbstractContextManager[None]:
        """Sets `stopping` when the check fails after a change of permissions."""
        return self._access.gateway.rechecks.during(self.check, lambda _: stopping.set())

    def may_describe(self, topic: str) -> bool:
        """Returns whether the lag of the topic counts."""
        return self._access.allows(AclOperation.DESCRIBE, TOPIC, topic)


class ScalerServicer(ExternalScalerServicer):
    """Returns the lag of the group that the trigger names."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @override
    async def IsActive(self, request: pb.ScaledObjectRef, context: Any) -> pb.IsActiveResponse:
        rights = _Rights(Access(self._gateway, context), request)
        rights.check()
        return pb.IsActiveResponse(result=await self._is_active(rights, deadline_of(context)))

    @override
    async def StreamIsActive(
        self, request: pb.ScaledObjectRef, context: Any
    ) -> AsyncIterator[pb.IsActiveResponse]:
        rights = _Rights(Access(self._gateway, context), request)
        rights.check()
        stopping = asyncio.Event()
        # KEDA reconnects soon after the end of a stream, but doubles its pause after each failure: only a
        # stream whose permission was revoked ends with an error.
        with self._gateway.serving(lambda _: stopping.set()), rights.rechecked(stopping):
            async for active in self._changes(rights, stopping):
                yield pb.IsActiveResponse(result=active)
        rights.check()

    @override
    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: Any) -> pb.GetMetricSpecResponse:
        rights = _Rights(Access(self._gateway, context), request)
        rights.check()
        trigger = rights.trigger
        size = trigger.per_worker
        spec = pb.MetricSpec(metricName=trigger.metric, targetSize=size, targetSizeFloat=size)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    @override
    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Any) -> pb.GetMetricsResponse:
        rights = _Rights(Access(self._gateway, context), request.scaledObjectRef)
        rights.check()
        lag = await self._lag(rights, deadline_of(context))
        name = request.metricName or rights.trigger.metric
        value = pb.MetricValue(metricName=name, metricValue=lag, metricValueFloat=lag)
        return pb.GetMetricsResponse(metricValues=[value])

    async def _changes(self, rights: _Rights, stopping: asyncio.Event) -> AsyncIterator[bool]:
        """Returns whether the trigger is active, first and after every change."""
        reported = None
        while not stopping.is_set():
            active = await self._is_active(rights, Deadline(REQUEST_TIMEOUT))
            if active is not reported:
                reported = active
                yield active
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), CHECK_INTERVAL)

    async def _is_active(self, rights: _Rights, deadline: Deadline) -> bool:
        return await self._lag(rights, deadline) > rights.trigger.activation

    async def _lag(self, rights: _Rights, deadline: Deadline) -> int:
        trigger = rights.trigger
        return await group_lag(self._gateway, trigger.group_id, trigger.topic, deadline, rights.may_describe)
