"""Serves KEDA's external scaler: scales workers by the lag of the share group that a trigger names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple

from typing_extensions import override

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.keda import externalscaler_pb2 as pb
from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerServicer
from sharebroker_server.catalog.topics import check_group_id, check_topic_name
from sharebroker_server.gateway.admin.groups import group_lag
from sharebroker_server.gateway.authorization import GROUP, TOPIC, Access
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.security.acl import AclOperation

DEFAULT_PER_WORKER: Final = 100
_OURS: Final = ("group", "topic", "lagPerWorker", "activationLag")
_KEDAS: Final = frozenset(
    {"scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile"}
)
"""Keys of KEDA's triggers `external` and `external-push` for KEDA itself; it forwards all keys."""
_METADATA: Final = "scalerMetadata"
_FROM_ENV: Final = "FromEnv"
"""Suffix of keys whose value KEDA reads from the environment of the workers."""
_MOST: Final = (2**63 - 1) // 1000
"""KEDA counts in thousandths, in 64 bits."""
_DIGITS: Final = re.compile(r"\d{1,19}", re.ASCII)
_NOT_FOR_A_NAME: Final = re.compile(r"[^a-z0-9-]+")


class Trigger(NamedTuple):
    """The group and topic ("": all topics of the group) whose lag is reported; numbers of records."""

    group_id: str
    topic: str
    per_worker: int
    activation: int

    @property
    def metric(self) -> str:
        """A metric name that Kubernetes accepts."""
        return f"sharebroker-{_NOT_FOR_A_NAME.sub('-', self.group_id.lower())}"


def trigger_of(metadata: Mapping[str, str]) -> Trigger:
    """Parses a trigger's metadata.

    Raises KafkaError INVALID_REQUEST, also for an unknown key, INVALID_TOPIC_EXCEPTION for an invalid topic
    name.
    """
    for name in sorted(metadata):
        if name not in _OURS and name.removesuffix(_FROM_ENV) not in _KEDAS:
            raise _invalid(name[:80], f"is unknown; valid keys: {', '.join(_OURS)}")
    group_id = metadata.get("group", "")
    if not group_id:
        raise _invalid("group", "is required: the share group of the workers")
    check_group_id(group_id, f"{_METADATA}.group")
    topic = metadata.get("topic", "")
    if topic:
        check_topic_name(topic, f"{_METADATA}.topic")
    return Trigger(
        group_id,
        topic,
        _number(metadata, "lagPerWorker", DEFAULT_PER_WORKER, 1),
        _number(metadata, "activationLag", 0, 0),
    )


def _number(metadata: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = metadata.get(name, "")
    if not text:
        return default
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= _MOST:
        raise _invalid(name, f"must be a whole number from {least} to {_MOST}; not {text[:40]!r}")
    return int(text)


def _invalid(name: str, problem: str) -> KafkaError:
    field = f"{_METADATA}.{name}"
    violations = [FieldViolation(field, problem)]
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{field}: {problem}", violations=violations)


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
