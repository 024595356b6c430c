"""`sharebroker doctor`: checks the Redis of a cluster, and reports problems with their remedies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sharebroker.aio.admin import Admin
from sharebroker.aio.connection import call
from sharebroker.cli.options import AsJson, examples
from sharebroker.cli.output import FAILED, Column, print_notice, print_rows
from sharebroker_protocol.address import Address
from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.keda.externalscaler_pb2 import GetMetricsRequest, ScaledObjectRef
from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerStub
from sharebroker_server.broker.core.diagnosis import (
    ClusterFacts,
    Finding,
    GroupFacts,
    Level,
    RedisFacts,
    of_clocks,
    of_cluster,
    of_gateways,
    of_group,
    of_redis,
    of_versions,
)
from sharebroker_server.broker.settings import parse_config
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.leases import names
from sharebroker_server.leases.port import LeaseStore, Member
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.link import LinkSettings
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.port import Link, RedisError, RedisRefused
from sharebroker_server.redis_link.server import Server
from sharebroker_server.routing.router import GATEWAY, ROLES

if TYPE_CHECKING:
    from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerAsyncStub

_EXAMPLES: Final = (
    "sharebroker doctor --redis redis://127.0.0.1:6379",
    "sharebroker doctor --redis redis://127.0.0.1:6379 --set cluster.id=orders --json",
)
_WITHIN: Final = 5.0
_LAG_WITHIN: Final = 30.0
_MOST_GROUPS: Final = 500
"""Maximum number of groups whose lag is requested."""

_NO_FINDINGS: Final = "No problems found."
_REDIS_SETTINGS: Final = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite")
_COLUMNS: Final = (
    Column("LEVEL", "level"),
    Column("SUBJECT", "subject"),
    Column("FINDING", "what"),
    Column("WHAT TO DO", "remedy"),
)


def doctor(
    redis: Annotated[str, typer.Option(envvar="SHAREBROKER_REDIS", help="The Redis of the cluster.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A broker property of `serve`: cluster.id, and numbers of shards."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="HOST:PORT",
            help="The gateway for lag requests; by default one of the cluster.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a cluster for problems;

    exits with 1 if there are errors, with 0 if there are at most warnings.
    """
    try:
        if server is not None:
            Address.parse(server)
        findings = asyncio.run(examine(redis, parse_config(set_ or ()), server))
    except (RedisError, KafkaError) as error:
        print_notice(f"sharebroker doctor: {error}")
        raise typer.Exit(2) from None
    print_rows([asdict(finding) for finding in findings], _COLUMNS, as_json, _NO_FINDINGS)
    if not as_json and findings and all(finding.level is Level.NOTE for finding in findings):
        print_notice(_NO_FINDINGS)
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(FAILED)


setattr(doctor, "epilog", examples(*_EXAMPLES))  # noqa: B010 - functions declare no attributes


async def examine(url: str, config: BrokerConfig, server: str | None = None) -> list[Finding]:
    """Returns all findings; requests lag from `server`, or from a gateway of the cluster.

    Raises RedisError if Redis is unavailable or too old.
    """
    link = await connect(url, timeout=_WITHIN, settings=LinkSettings(evicting=True))
    try:
        facts = [await _redis(f"redis {index}", node) for index, node in enumerate(link.nodes)]
        findings = [finding for each in facts for finding in of_redis(each)]
        store = RedisLeaseStore(link, Keys.of_cluster(config.cluster_id))
        members = [member for member in await store.members() if not member.is_dead]
        cluster = list(of_cluster(await _cluster(store, members, config)))
        gateways = [server] if server else [member.address for member in members if GATEWAY in member.roles]
        versions = of_versions({member.address: member.version for member in members})
        clocks = of_clocks({member.address: member.skew for member in members})
        return [*findings, *cluster, *clocks, *await _groups(gateways), *versions]
    finally:
        await link.close()


async def _redis(name: str, node: Link) -> RedisFacts:
    seconds, micros = await node.call("TIME", timeout=_WITHIN)
    skew = int(seconds) + int(micros) / 1e6 - now()
    info = await node.call("INFO", *Server.SECTIONS, timeout=_WITHIN)
    server = Server.from_info(info)
    lines = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    replicas = int(lines.get("connected_slaves", "0"))
    release = f"{server.product.title()} {server.version}"
    return RedisFacts(name, await _settings(node), replicas, skew, server.eviction, release)


async def _settings(node: Link) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        for name in _REDIS_SETTINGS:
            _, value = await node.call("CONFIG", "GET", name, timeout=_WITHIN)
            found[name] = value.decode()
    except (RedisRefused, ValueError):  # managed Redis services reject CONFIG GET
        return {}
    return found


async def _cluster(store: LeaseStore, members: Iterable[Member], config: BrokerConfig) -> ClusterFacts:
    resources = _resources(config)
    leases = zip(resources, await store.read(resources), strict=True)
    owners = {resource: lease.owner if lease is not None else None for resource, lease in leases}
    return ClusterFacts({member.owner: member.roles for member in members}, ROLES, owners)


async def _groups(gateways: Iterable[str]) -> list[Finding]:
    """Returns findings about groups from the first gateway that responds, or a finding without one."""
    reason = ""
    for address in gateways:
        try:
            async with (
                asyncio.timeout(_LAG_WITHIN),
                Admin(address) as admin,
                Address.parse(address).open(()) as channel,
            ):
                lags = await _lags(admin, ExternalScalerStub(channel))
                return [finding for facts in lags for finding in of_group(facts)]
        except (KafkaError, TimeoutError) as error:
            reason = str(error) or f"{address} did not respond within {_LAG_WITHIN:.0f} s."
    return [of_gateways(reason)] if reason else []


async def _lags(admin: Admin, scaler: ExternalScalerAsyncStub) -> list[GroupFacts]:
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


async def _lag(scaler: ExternalScalerAsyncStub, group_id: str) -> int:
    """Returns the lag as KEDA receives it, which includes partitions without stored state."""
    trigger = ScaledObjectRef(name="doctor", scalerMetadata={"group": group_id})
    response = await call(scaler.GetMetrics, GetMetricsRequest(scaledObjectRef=trigger), _LAG_WITHIN)
    return sum(value.metricValue for value in response.metricValues)


def _resources(config: BrokerConfig) -> list[str]:
    counts = {
        "group-coordinator": config.offsets_topic_num_partitions,
        "share-coordinator": config.share_coordinator_state_topic_num_partitions,
        names.TRANSACTIONS: config.transaction_state_log_num_partitions,
    }
    shards = [shard for kind, count in counts.items() for shard in names.shards(kind, count)]
    return [names.CATALOG, *shards]
