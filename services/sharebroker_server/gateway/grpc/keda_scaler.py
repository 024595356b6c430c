"""KEDA's external scaler: how many workers a share group's backlog asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from sharebroker_protocol.keda import externalscaler_pb2 as pb
from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerServicer
from sharebroker_server.gateway.admin.lag import backlog
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.scaling import Trigger, trigger_of

LOOK_EVERY: Final = 2.0
"""Seconds between two looks at the backlog for a stream."""


class ScalerServicer(ExternalScalerServicer):
    """See the proto for each method."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def IsActive(self, request: pb.ScaledObjectRef, context: Any) -> pb.IsActiveResponse:
        """See the proto."""
        trigger = trigger_of(request.scalerMetadata)
        return pb.IsActiveResponse(result=await self._is_active(trigger, Deadline.of(context)))

    async def StreamIsActive(
        self, request: pb.ScaledObjectRef, context: Any
    ) -> AsyncIterator[pb.IsActiveResponse]:
        """See the proto."""
        # KEDA comes back soon after an end; after each failure it waits twice as long, and goes on doing so.
        trigger, told, stopping = trigger_of(request.scalerMetadata), None, asyncio.Event()
        with self._gateway.serving(lambda _: stopping.set()):
            while not stopping.is_set():
                active = await self._is_active(trigger, Deadline(REQUEST_TIMEOUT))
                if active is not told:
                    told = active
                    yield pb.IsActiveResponse(result=active)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), LOOK_EVERY)

    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: Any) -> pb.GetMetricSpecResponse:
        """See the proto."""
        trigger = trigger_of(request.scalerMetadata)
        size = trigger.per_worker
        spec = pb.MetricSpec(metricName=trigger.metric, targetSize=size, targetSizeFloat=size)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Any) -> pb.GetMetricsResponse:
        """See the proto."""
        trigger = trigger_of(request.scaledObjectRef.scalerMetadata)
        waiting = await self._backlog(trigger, Deadline.of(context))
        name = request.metricName or trigger.metric
        value = pb.MetricValue(metricName=name, metricValue=waiting, metricValueFloat=waiting)
        return pb.GetMetricsResponse(metricValues=[value])

    async def _is_active(self, trigger: Trigger, deadline: Deadline) -> bool:
        return await self._backlog(trigger, deadline) > trigger.activation

    async def _backlog(self, trigger: Trigger, deadline: Deadline) -> int:
        return await backlog(self._gateway, trigger.group_id, trigger.topic, deadline)
