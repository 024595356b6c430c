"""Arbitrary requests, in every API: each gets a response, and none makes a handler fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.kafka_wire.frames import codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.schema import api_schema
from tests.support.client import connected
from tests.support.kafka_messages import Values, requests
from tests.testkit.brokers import Cluster, one_process
from tests.unit.record_log.batches import batch

pytestmark = pytest.mark.xdist_group("any request")

PRODUCE: Final = 0
UPDATE_FEATURES: Final = 57
REMOVING: Final = (20, 21, 37, 42, 92)
"""These run last, since they delete what the others read."""

SORTED: Final = sorted(APIS.values(), key=lambda api: (api.key in REMOVING, api.key))
SECONDS: Final = 45.0


@dataclass(frozen=True)
class Harness:
    """A server with a topic, a group and a member, and their names in requests."""

    cluster: Cluster
    values: Values


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with one_process("--fsync", "everysec") as cluster:
        yield Harness(cluster, asyncio.run(_values(cluster)))
        assert "kafka request failed" not in cluster.processes[0].log


async def _values(cluster: Cluster) -> Values:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(2)
        group = await client.group()
        await client.publish(topic, ["value"] * 5, partition=0)
        await client.acquire_all(group, topic, 2, "member")
    share = f"{group}:{topic_id}:0"
    texts = (
        topic,
        group,
        "member",
        share,
        "retention.ms",
        "earliest",
        "__share_group_state",
        "__consumer_offsets",
        "share.version",
    )
    small = st.sampled_from([0, 1, 2, 3, 5, -1])
    return {
        "string": st.sampled_from(["", *texts]),
        "uuid": st.sampled_from([topic_id, "A" * 22]),
        "records": st.sampled_from([batch(1), batch(1) * 2, batch(1)[:-1], b""]),
        **dict.fromkeys(("int8", "int16", "int32", "int64"), small),
    }


@pytest.mark.parametrize("api", SORTED, ids=lambda api: api_schema(api.key).name)
@given(data=st.data())
@settings(
    max_examples=25,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_request_gets_a_response(harness: Harness, api: Any, data: st.DataObject) -> None:
    version = data.draw(st.integers(*api.versions))
    request = data.draw(requests(api.key, version, harness.values))
    if hasattr(request, "max_wait_ms"):
        request.max_wait_ms = 1
    if api.key == UPDATE_FEATURES:
        request.validate_only = True  # level 0 would disable the APIs of share groups
    if api.key == PRODUCE:
        request.acks = request.acks or 1  # version 0 gets no response
    assert asyncio.run(_ask(harness.cluster.kafka, api.key, version, request)) == 7


async def _ask(address: str, key: int, version: int, request: Any) -> int:
    how = codec_of(key, version)
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(SECONDS):
            writer.write(request_frame(7, "any", how, request))
            size = int.from_bytes(await reader.readexactly(4))
            number, _ = read_response(await reader.readexactly(size), how)
            return number
    finally:
        writer.close()
        await writer.wait_closed()
