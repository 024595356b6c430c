"""The examination of `sharebroker doctor`: Redis, the roles of the cluster, and its groups."""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker.aio.admin import Admin
from sharebroker.aio.connection import call
from sharebroker_protocol.address import Address, is_loopback
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.keda import externalscaler_pb2, externalscaler_pb2_grpc
from sharebroker_server.broker.core.diagnosis import (
    Finding,
    GroupFacts,
    of_gateways,
    of_group,
    of_open_gateway,
)
from sharebroker_server.broker.examination.cluster import examine_redis
from sharebroker_server.config.broker import BrokerConfig

_LAG_WITHIN: Final = 30.0
_MOST_GROUPS: Final = 500
"""Maximum number of groups whose lag is requested."""


async def examine(
    url: str | None, config: BrokerConfig, server: str | None = None, data: str | None = None
) -> list[Finding]:
    """Returns all findings; requests lag from `server`, or from a gateway of the cluster.

    Without `url` it examines the embedded Valkey of the folder `data`. Raises RedisError if Redis is
    unavailable or too old, KafkaError INVALID_CONFIG.
    """
    examined = await examine_redis(url, config, data)
    groups = await _groups([server] if server else examined.gateways)
    return [*examined.findings, *groups, *examined.versions]


async def _groups(gateways: list[str]) -> list[Finding]:
    """Returns findings about groups from the first gateway that responds, or a finding without one."""
    reason = ""
    for address in gateways:
        try:
            async with (
                asyncio.timeout(_LAG_WITHIN),
                Admin(address) as admin,
                Address.parse(address).open(()) as channel,
            ):
                lags = await _lags(admin, externalscaler_pb2_grpc.ExternalScalerStub(channel))
                unprotected = [of_open_gateway(address)] if is_open(address) else []
                return [*unprotected, *(finding for facts in lags for finding in of_group(facts))]
        except (KafkaError, TimeoutError) as error:
            reason = str(error) or f"{address} did not respond within {_LAG_WITHIN:.0f} s."
    return [of_gateways(reason)] if reason else []


def is_open(address: str) -> bool:
    """Returns whether a gateway that served this address serves anyone on the network."""
    parsed = Address.parse(address)
    host = parsed.target.rpartition(":")[0]
    return not parsed.identified and not is_loopback(host) and not host.startswith("unix")


async def _lags(admin: Admin, scaler: externalscaler_pb2_grpc.ExternalScalerAsyncStub) -> list[GroupFacts]:
    found = []
    for group in (await admin.list_groups())[:_MOST_GROUPS]:
        try:
            described = await admin.describe_group(group.group_id)
            lag = await _lag(scaler, group.group_id)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:  # it was deleted meanwhile
                raise
        else:
            found.append(GroupFacts(group.group_id, len(described.members), lag))
    return found


async def _lag(scaler: externalscaler_pb2_grpc.ExternalScalerAsyncStub, group_id: str) -> int:
    """Returns the lag as KEDA receives it, which includes partitions without stored state."""
    trigger = externalscaler_pb2.ScaledObjectRef(name="doctor", scalerMetadata={"group": group_id})
    request = externalscaler_pb2.GetMetricsRequest(scaledObjectRef=trigger)
    response = await call(scaler.GetMetrics, request, _LAG_WITHIN)
    return sum(value.metricValue for value in response.metricValues)
