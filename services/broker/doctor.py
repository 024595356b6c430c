"""`sharebroker doctor`: looks at the Redis of a cluster, and says what is wrong and what to do."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Final

import typer

from libs.clock import now
from libs.config.broker import BrokerConfig
from libs.leases import names
from libs.leases.redis import RedisLeaseStore
from libs.redis_link.connection import connect
from libs.redis_link.errors import RedisError, RedisRefused
from libs.redis_link.keys import Keys
from libs.redis_link.port import Link
from libs.rpc.router import ROLES
from services.broker.core.diagnosis import ClusterFacts, Finding, Level, RedisFacts, of_cluster, of_redis
from services.broker.settings import parse_config
from sharebroker.cli.failures import FAILED
from sharebroker.cli.options import AsJson, examples
from sharebroker.cli.output import Column, print_rows, say
from sharebroker.errors import KafkaError

_EXAMPLES: Final = (
    "sharebroker doctor --redis redis://127.0.0.1:6379",
    "sharebroker doctor --redis redis://127.0.0.1:6379 --set cluster.id=orders --json",
)
_WITHIN: Final = 5.0
_ASKED: Final = ("appendonly", "appendfsync")
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
        typer.Option("--set", help="A property as `serve` has it: cluster.id, and numbers of shards."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for what endangers a cluster: exit code 1 where something is wrong, 0 for warnings at most."""
    try:
        findings = asyncio.run(examine(redis, parse_config(set_ or ())))
    except (RedisError, KafkaError) as error:
        say(f"sharebroker doctor: {error}")
        raise typer.Exit(2) from None
    print_rows([asdict(finding) for finding in findings], _COLUMNS, as_json, "Nothing is wrong.")
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(FAILED)


setattr(doctor, "epilog", examples(*_EXAMPLES))  # noqa: B010 - functions declare no attributes


async def examine(url: str, config: BrokerConfig) -> list[Finding]:
    """All findings. Raises RedisError where Redis cannot be asked."""
    link = await connect(url, timeout=_WITHIN)
    try:
        facts = [await _redis(f"redis {index}", node) for index, node in enumerate(link.nodes)]
        findings = [finding for each in facts for finding in of_redis(each)]
        return [*findings, *of_cluster(await _cluster(link, config))]
    finally:
        await link.close()


async def _redis(name: str, node: Link) -> RedisFacts:
    seconds, micros = await node.call("TIME", timeout=_WITHIN)
    skew = int(seconds) + int(micros) / 1e6 - now()
    info = (await node.call("INFO", "replication", timeout=_WITHIN)).decode()
    lines = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    return RedisFacts(name, await _settings(node), int(lines.get("connected_slaves", "0")), skew)


async def _settings(node: Link) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        for name in _ASKED:
            _, value = await node.call("CONFIG", "GET", name, timeout=_WITHIN)
            found[name] = value.decode()
    except (RedisRefused, ValueError):  # managed ones do not let it be asked
        return {}
    return found


async def _cluster(link: Link, config: BrokerConfig) -> ClusterFacts:
    store = RedisLeaseStore(link, Keys.of_cluster(config.cluster_id))
    members = {member.owner: member.roles for member in await store.members() if not member.gone}
    resources = _resources(config)
    leases = zip(resources, await store.read(resources), strict=True)
    owners = {resource: lease.owner if lease is not None else None for resource, lease in leases}
    return ClusterFacts(members, ROLES, owners)


def _resources(config: BrokerConfig) -> list[str]:
    counts = {
        "group-coordinator": config.offsets_topic_num_partitions,
        "share-coordinator": config.share_coordinator_state_topic_num_partitions,
        names.TRANSACTIONS: config.transaction_state_log_num_partitions,
    }
    shards = [names.shard(kind, index) for kind, count in counts.items() for index in range(count)]
    return [names.CATALOG, *shards]
