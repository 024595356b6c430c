"""Two releases in one namespace, on one Redis: each keeps its own data and loses none to the other."""

from __future__ import annotations

import asyncio

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from tests.k8s.release import NAME, Release
from tests.support.client import TIMEOUT, connected

_OTHER = "other"
_PROCESSES = 8
_VALUES = (
    "--set=redis.builtIn.enabled=false",
    f"--set=redis.url=redis://{NAME}-valkey:6379",
    "--set=kafka.external.type=",
)


async def releases_are_isolated(release: Release) -> str:
    """Returns the result in one line. Raises AssertionError on failure, Failed."""
    other = Release(release.node, _OTHER)
    await asyncio.to_thread(other.install, *_VALUES)
    async with connected(release.address()) as here, connected(other.address()) as there:
        topic, _ = await here.create(2)
        group = await here.group()
        await here.publish(topic, "ab")
        await there.create(2, name=topic)
        assert not (await there.acquire(group, topic, 1, wait=1.0)).records
        for one, client in ((release, here), (other, there)):
            seen = await client.admin.Metadata(pb.MetadataRequest(), timeout=TIMEOUT)
            assert (seen.cluster_id, len(seen.nodes)) == (one.cluster_id, _PROCESSES), seen.cluster_id
    await asyncio.to_thread(other.test)
    await asyncio.to_thread(release.test)
    await asyncio.to_thread(other.uninstall)
    async with connected(release.address()) as here:
        records = (await here.acquire(group, topic, 2, wait=20)).records
        assert len(records) == 2, "uninstalling the other release removed records"
    return "the same topic and group in both, the records of each its own"
