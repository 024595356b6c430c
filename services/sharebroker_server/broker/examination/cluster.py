"""Reads the facts about a cluster from its Redis, and reports the findings (see `core.diagnosis`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_protocol.clock import now
from sharebroker_server.broker.core.diagnosis import (
    ClusterFacts,
    Finding,
    RedisFacts,
    of_clocks,
    of_cluster,
    of_format,
    of_redis,
    of_versions,
)
from sharebroker_server.broker.examination.memory_growth import forecast_memory
from sharebroker_server.broker.redis import connect_to_examine
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.leases import names
from sharebroker_server.leases.port import ClusterMember, LeaseStore
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.format_version import FORMAT_VERSION, read_format
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import Link, RedisRefused
from sharebroker_server.redis_link.server import ServerInfo
from sharebroker_server.routing.router import GATEWAY, ROLES

_WITHIN: Final = 5.0
_REDIS_SETTINGS: Final = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite")


class Examination(NamedTuple):
    """The findings about Redis, leases and clocks, those about versions, and the addresses of gateways."""

    findings: list[Finding]
    versions: list[Finding]
    gateways: list[str]


async def examine_redis(url: str | None, config: BrokerConfig, data: str | None = None) -> Examination:
    """Examines the cluster `cluster.id` in a Redis, or in the embedded Valkey of the data folder `data`.

    Raises RedisError if it is unavailable or too old, KafkaError INVALID_CONFIG.
    """
    link = await connect_to_examine(url, data, _WITHIN)
    try:
        facts = [await _redis(f"redis {index}", node, url is None) for index, node in enumerate(link.nodes)]
        findings = [finding for each in facts for finding in of_redis(each)]
        findings += await forecast_memory(link)
        keys = Keys.of_cluster(config.cluster_id)
        stored = await read_format(link, keys)
        if stored is not None:
            findings.append(of_format(stored.version, stored.release, FORMAT_VERSION))
        store = RedisLeaseStore(link, keys)
        members = [member for member in await store.members() if not member.is_dead]
        findings += of_cluster(await _cluster(store, members, config))
        findings += of_clocks({member.address: member.skew for member in members})
        versions = of_versions({member.address: member.version for member in members})
        gateways = [member.address for member in members if GATEWAY in member.roles]
        return Examination(findings, list(versions), gateways)
    finally:
        await link.close()


async def _redis(name: str, node: Link, embedded: bool) -> RedisFacts:
    seconds, micros = await node.call("TIME", timeout=_WITHIN)
    skew = int(seconds) + int(micros) / 1e6 - now()
    info = await node.call("INFO", *ServerInfo.SECTIONS, timeout=_WITHIN)
    server = ServerInfo.from_info(info)
    lines = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    replicas = int(lines.get("connected_slaves", "0"))
    release = f"{server.product.title()} {server.version}"
    return RedisFacts(name, await _settings(node), replicas, skew, server.eviction, release, embedded)


async def _settings(node: Link) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        for name in _REDIS_SETTINGS:
            _, value = await node.call("CONFIG", "GET", name, timeout=_WITHIN)
            found[name] = value.decode()
    except (RedisRefused, ValueError):  # managed Redis services reject CONFIG GET
        return {}
    return found


async def _cluster(store: LeaseStore, members: list[ClusterMember], config: BrokerConfig) -> ClusterFacts:
    counts = {
        names.GROUP_COORDINATOR: config.offsets_topic_num_partitions,
        names.SHARE_COORDINATOR: config.share_coordinator_state_topic_num_partitions,
        names.TRANSACTIONS: config.transaction_state_log_num_partitions,
    }
    shards = [shard for kind, count in counts.items() for shard in names.shards(kind, count)]
    resources = [names.CATALOG, *shards]
    leases = zip(resources, await store.read(resources), strict=True)
    owners = {resource: lease.owner if lease is not None else None for resource, lease in leases}
    return ClusterFacts({member.owner: member.roles for member in members}, ROLES, owners)
