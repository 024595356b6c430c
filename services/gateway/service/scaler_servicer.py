"""KEDA's external scaler: how many workers a share group's backlog asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from services.gateway.clients.deadline import Deadline
from services.gateway.config import REQUEST_TIMEOUT
from services.gateway.core.scaling import Trigger, trigger_of
from services.gateway.service.backlog import backlog
from services.gateway.service.gateway import Gateway
from sharebroker.keda import externalscaler_pb2 as pb
from sharebroker.keda.externalscaler_pb2_grpc import ExternalScalerServicer

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
        trigger, told, cut = trigger_of(request.scalerMetadata), None, _Cut()
        with self._gateway.serving(cut.fail):
            while not cut.error:
                active = await self._is_active(trigger, Deadline(REQUEST_TIMEOUT))
                if active is not told:
                    told = active
                    yield pb.IsActiveResponse(result=active)
                await cut.wait(LOOK_EVERY)
            raise cut.error

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


class _Cut:
    """Ends a stream from outside."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._told = asyncio.Event()

    def fail(self, error: BaseException) -> None:
        """End it."""
        self.error = error
        self._told.set()

    async def wait(self, seconds: float) -> None:
        """Until it is ended, or for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            pass
