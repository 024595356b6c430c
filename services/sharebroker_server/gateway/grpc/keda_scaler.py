"""Serves KEDA's external scaler: scales workers by the lag of a share group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.keda import externalscaler_pb2 as pb
from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerServicer
from sharebroker_server.gateway.admin.lag import group_lag
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.scaling import Trigger, trigger_of

CHECK_INTERVAL: Final = 2.0
"""Seconds between two checks of the lag for a stream."""


class ScalerServicer(ExternalScalerServicer):
    """Returns the lag of the group that the trigger names."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @override
    async def IsActive(self, request: pb.ScaledObjectRef, context: Any) -> pb.IsActiveResponse:
        trigger = trigger_of(request.scalerMetadata)
        return pb.IsActiveResponse(result=await self._is_active(trigger, Deadline.of(context)))

    @override
    async def StreamIsActive(
        self, request: pb.ScaledObjectRef, context: Any
    ) -> AsyncIterator[pb.IsActiveResponse]:
        # KEDA reconnects soon after the end of a stream, but doubles its pause after each failure.
        trigger, reported, stopping = trigger_of(request.scalerMetadata), None, asyncio.Event()
        with self._gateway.serving(lambda _: stopping.set()):
            while not stopping.is_set():
                active = await self._is_active(trigger, Deadline(REQUEST_TIMEOUT))
                if active is not reported:
                    reported = active
                    yield pb.IsActiveResponse(result=active)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), CHECK_INTERVAL)

    @override
    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: Any) -> pb.GetMetricSpecResponse:
        trigger = trigger_of(request.scalerMetadata)
        size = trigger.per_worker
        spec = pb.MetricSpec(metricName=trigger.metric, targetSize=size, targetSizeFloat=size)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    @override
    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Any) -> pb.GetMetricsResponse:
        trigger = trigger_of(request.scaledObjectRef.scalerMetadata)
        lag = await self._lag(trigger, Deadline.of(context))
        name = request.metricName or trigger.metric
        value = pb.MetricValue(metricName=name, metricValue=lag, metricValueFloat=lag)
        return pb.GetMetricsResponse(metricValues=[value])

    async def _is_active(self, trigger: Trigger, deadline: Deadline) -> bool:
        return await self._lag(trigger, deadline) > trigger.activation

    async def _lag(self, trigger: Trigger, deadline: Deadline) -> int:
        return await group_lag(self._gateway, trigger.group_id, trigger.topic, deadline)
