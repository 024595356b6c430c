"""The facts that `doctor` reads from a cluster's Redis, and its report."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from sharebroker_server.broker.core.diagnosis import Level
from sharebroker_server.broker.examination.cluster import examine_redis
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.leases import names
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.port import RedisError
from tests.testkit.servers import Server, free_port, running

pytestmark = pytest.mark.servers  # it starts Valkey

CLUSTER = "orders"
CONFIG = BrokerConfig.parse([f"cluster.id={CLUSTER}"])
ROLES = frozenset({"gateway", "group-coordinator", "share-partition-leader", "share-coordinator"})
TTL = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("valkey") as server:
        yield server


@pytest.fixture
async def store(server: Server) -> AsyncIterator[RedisLeaseStore]:
    """The lease store of an empty Redis."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    link = await connect(server.url)
    yield RedisLeaseStore(link, Keys.of_cluster(CLUSTER))
    await link.close()


async def claim_all(store: RedisLeaseStore, owner: str) -> None:
    kinds = ("group-coordinator", "share-coordinator", names.TRANSACTIONS)
    for resource in (names.CATALOG, *(shard for kind in kinds for shard in names.shards(kind, 50))):
        await store.claim(resource, owner, TTL)


async def test_every_role_without_a_live_broker_is_an_error(server: Server, store: RedisLeaseStore) -> None:
    await store.announce(ClusterMember("1/1", 1, frozenset({"gateway"}), "one:1", version="7"), TTL)
    examined = await examine_redis(server.url, CONFIG)
    errors = {finding.subject for finding in examined.findings if finding.level is Level.ERROR}
    assert ROLES - {"gateway"} <= errors
    assert "gateway" not in errors
    assert examined.gateways == ["one:1"]


async def test_brokers_of_another_cluster_id_do_not_count(server: Server, store: RedisLeaseStore) -> None:
    await store.announce(ClusterMember("1/1", 1, ROLES, "one:1"), TTL)
    examined = await examine_redis(server.url, BrokerConfig.parse(["cluster.id=another"]))
    assert (examined.gateways, examined.versions) == ([], [])


async def test_shards_without_a_live_owner_are_an_error(server: Server, store: RedisLeaseStore) -> None:
    await store.announce(ClusterMember("1/1", 1, ROLES, "one:1"), TTL)
    await claim_all(store, "1/1")
    assert "leases" not in {finding.subject for finding in (await examine_redis(server.url, CONFIG)).findings}
    await store.release(names.CATALOG, "1/1")
    await store.claim(names.CATALOG, "2/1", TTL)
    (orphans,) = [
        finding
        for finding in (await examine_redis(server.url, CONFIG)).findings
        if finding.subject == "leases"
    ]
    assert orphans.what == f"1 shards have no live owner: {names.CATALOG}"


async def test_versions_are_reported_by_broker(server: Server, store: RedisLeaseStore) -> None:
    for number, version in ((1, "7"), (2, "8")):
        member = ClusterMember(f"{number}/1", number, ROLES, f"broker-{number}:1", version=version)
        await store.announce(member, TTL)
    (mixed,) = (await examine_redis(server.url, CONFIG)).versions
    assert mixed.what == "Brokers have different versions. 7: broker-1:1; 8: broker-2:1."


async def test_redis_is_named_with_its_replicas_and_release(server: Server, store: RedisLeaseStore) -> None:
    found = [
        finding
        for finding in (await examine_redis(server.url, CONFIG)).findings
        if finding.subject == "redis 0"
    ]
    assert any(finding.what.startswith("It has no replica") for finding in found)
    (release,) = [finding.what for finding in found if finding.level is Level.NOTE]
    assert release.startswith("Valkey ")


async def test_rejected_config_get_leaves_durability_unknown(server: Server, store: RedisLeaseStore) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "default", "-config")
        try:
            found = (await examine_redis(server.url, CONFIG)).findings
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+config")
    assert "It rejects CONFIG GET" in "".join(finding.what for finding in found)


async def test_unreachable_redis_is_an_error() -> None:
    with pytest.raises(RedisError, match="no Redis at"):
        await examine_redis(f"redis://127.0.0.1:{free_port()}", CONFIG)
