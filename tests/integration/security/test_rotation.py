"""Processes with another secret, rotation under load, and certificates that replace a token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_server.security.cluster_token import SETTLING
from tests.support.client import ACCEPT, TIMEOUT, Client, connected, rejection, unique
from tests.testkit.brokers import Cluster, Serve, four_processes
from tests.testkit.certificates import Authority
from tests.testkit.cluster_tokens import store_secrets
from tests.testkit.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.slow]

FIRST, SECOND = b"the first secret of all", b"the second secret of all"
DENIED = "call of an internal RPC denied"
CHANGED = "cluster secret changed"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_bytes(FIRST)
    return file


@pytest.fixture
def with_file(secret_file: Path) -> Iterator[Cluster]:
    with four_processes("--cluster-secret-file", str(secret_file)) as cluster:
        yield cluster


@pytest.fixture
def with_stored_secret() -> Iterator[Cluster]:
    with four_processes() as cluster:
        yield cluster


def replace(file: Path, *secrets: bytes) -> None:
    """Replaces the list of secrets, as an operator does."""
    file.write_bytes(b"\n".join(secrets))


class Load:
    """Publishes, acquires and accepts records one by one, and fails at the first error."""

    def __init__(self, client: Client, topic: str, group_id: str) -> None:
        self._client = client
        self._topic = topic
        self._group_id = group_id
        self._member = unique("member")
        self.delivered = 0

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self._client.publish(self._topic, [str(self.delivered)])
            [record] = await self._client.acquire_all(self._group_id, self._topic, 1, self._member)
            assert record.text == str(self.delivered), "lost or duplicated"
            [code] = await self._client.acknowledge(self._group_id, self._member, [record], ACCEPT)
            assert code is ErrorCode.NONE
            self.delivered += 1


@asynccontextmanager
async def load_on(cluster: Cluster) -> AsyncIterator[Load]:
    """Provides load that runs meanwhile; its first error fails the test."""
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        load = Load(client, topic, await client.group())
        task = asyncio.create_task(load.run())
        await eventually(lambda: load.delivered or task.done(), TIMEOUT)
        yield load
        assert not task.done(), task.exception()
        task.cancel()


async def rotated(cluster: Cluster, load: Load) -> None:
    """Waits until every process has read a change and signs with the new secret, under load."""
    await eventually(lambda: all(CHANGED in serve.log for serve in cluster.processes), TIMEOUT)
    await asyncio.sleep(SETTLING + 3)  # the processes' own clocks decide when the new secret signs
    delivered = load.delivered
    await eventually(lambda: load.delivered > delivered, TIMEOUT)
    assert not any(DENIED in serve.log for serve in cluster.processes)
    assert not any(secret.decode() in serve.log for serve in cluster.processes for secret in (FIRST, SECOND))


async def test_rotation_of_the_stored_secret_fails_no_call(with_stored_secret: Cluster) -> None:
    async with load_on(with_stored_secret) as load:
        store_secrets(with_stored_secret.redis_url, SECOND)
        await rotated(with_stored_secret, load)


async def test_rotation_of_the_secret_file_fails_no_call(with_file: Cluster, secret_file: Path) -> None:
    async with load_on(with_file) as load:
        replace(secret_file, SECOND, FIRST)
        await rotated(with_file, load)


async def test_a_broker_with_another_secret_is_denied_until_they_agree(
    with_file: Cluster, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(SECOND)
    options = ["--redis", with_file.redis_url, "--roles", "gateway", "--cluster-secret-file", str(other)]
    outsider = Serve(tmp_path, options, "outsider")
    outsider.start()
    try:
        async with connected(with_file.address) as client, connected(outsider.address) as outside:
            topic, _ = await client.create()
            error = await rejection(outside.publish(topic, ["0"]))
            assert error.retriable, error
            leader = with_file.process("share-partition-leader")
            await eventually(lambda: DENIED in leader.log, TIMEOUT)
            await eventually(lambda: "signed with another secret" in leader.log, TIMEOUT)
            await client.publish(topic, ["0"])
            replace(other, FIRST)
            await eventually(lambda: CHANGED in outsider.log, TIMEOUT)
            await asyncio.sleep(SETTLING)  # the process's own clock decides when the new secret signs
            assert await outside.publish(topic, ["1"]) == [(0, 1)]
    finally:
        outsider.stop()


async def test_a_certificate_of_broker_principals_replaces_the_token(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ours")
    broker, trusted = authority.issue("broker", "127.0.0.1"), authority.issue("trusted", "trusted.example")
    ordinary = authority.issue("ordinary", "ordinary.example")
    options = [f"--tls-cert={broker.certificate}", f"--tls-key={broker.key}", f"--tls-ca={authority.file}"]
    options += ["--set=ssl.client.auth=required", f"--set=broker.principals=User:{trusted.subject}; CN=other"]
    request = pb.ReadShareGroupStateSummaryRequest(group_id="none")
    with four_processes(*options) as cluster:
        for identity, allowed in ((trusted, True), (ordinary, False)):
            files = authority.file, identity.key, identity.certificate
            credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
            address = cluster.process("share-coordinator").address
            async with grpc.aio.secure_channel(address, credentials) as channel:
                call = ShareCoordinatorServiceStub(channel).ReadShareGroupStateSummary(
                    request, timeout=TIMEOUT
                )
                if allowed:
                    assert not (await call).results
                else:
                    assert (await rejection(call)).code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
