"""`sharebroker doctor`: checks a cluster, and reports problems with their remedies."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from sharebroker.aio.admin import Admin
from sharebroker.aio.connection import call
from sharebroker.cli.options import AsJson, LagServer
from sharebroker.cli.output import BAD_USAGE, FAILED, columns, print_failure, print_notice, print_rows
from sharebroker_protocol.address import Address, is_loopback
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.keda import externalscaler_pb2, externalscaler_pb2_grpc
from sharebroker_server.broker.core.diagnosis import (
    Finding,
    GroupFacts,
    Level,
    of_gateways,
    of_group,
    of_open_gateway,
)
from sharebroker_server.broker.examination import examine_redis
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.redis_link.port import RedisError

EXAMPLES: Final = (
    "sharebroker doctor --redis redis://127.0.0.1:6379",
    "sharebroker doctor --data data",
    "sharebroker doctor --redis redis://127.0.0.1:6379 --set cluster.id=orders --json",
)
_LAG_WITHIN: Final = 30.0
_MOST_GROUPS: Final = 500
"""Maximum number of groups whose lag is requested."""

_NO_FINDINGS: Final = "No problems found."
_COLUMNS: Final = columns("level", "subject", "what FINDING", "remedy WHAT TO DO")


def doctor(
    redis: Annotated[
        str | None, typer.Option(envvar="SHAREBROKER_REDIS", help="The Redis of the cluster.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Instead of --redis: the data folder of a running server with an embedded Valkey.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A broker property of `serve`: cluster.id, and numbers of shards."),
    ] = None,
    server: LagServer = None,
    as_json: AsJson = False,
) -> None:
    """Check a cluster for problems.

    The exit code is 1 if there are errors, and 0 if there are at most warnings.
    """
    if (redis is None) == (data is None):
        raise typer.BadParameter("Either --redis or --data is required, and not both.")
    try:
        if server is not None:
            Address.parse(server)
        findings = asyncio.run(examine(redis, BrokerConfig.parse(set_ or ()), server, data))
    except (RedisError, KafkaError) as error:
        print_failure(error, as_json, "sharebroker doctor", str(error))
        raise typer.Exit(BAD_USAGE) from None
    print_rows([finding._asdict() for finding in findings], _COLUMNS, as_json, _NO_FINDINGS)
    if not as_json and findings and all(finding.level is Level.NOTE for finding in findings):
        print_notice(_NO_FINDINGS)
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(FAILED)


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
