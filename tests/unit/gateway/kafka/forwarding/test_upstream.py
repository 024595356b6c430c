"""The brokers of the cluster: connections of requests in progress, coordinators, versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.upstream import GROUP, Upstream, error_codes, known_code
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.kafka_wire.messages import (
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataResponse,
    OffsetCommitResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from tests.testkit.waiting import eventually
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.kafka_client.harness import OFFERED, SETTINGS, Broker, serving

FIND_COORDINATOR, METADATA, HEARTBEAT, API_VERSIONS = 10, 3, 12, 18
VERSION = 3


class TwoBrokers:
    """Brokers 0 and 1; `coordinator` coordinates every group, and answers once `answering` is set."""

    def __init__(self) -> None:
        offered = {**OFFERED, FIND_COORDINATOR: (0, 3), HEARTBEAT: (0, VERSION)}
        self.coordinator = 1
        self.answering = asyncio.Event()
        self.answering.set()
        self.lookups = 0
        self.received = 0
        self.brokers = [Broker(dict(offered), self.respond(node)) for node in (0, 1)]

    def respond(self, node: int) -> Any:
        async def answer(key: int, _: int, message: Any) -> Message | None:
            del message
            if key == METADATA:
                broker = MetadataResponse.MetadataResponseBroker
                nodes = [
                    broker(node_id=n, host="127.0.0.1", port=one.port) for n, one in enumerate(self.brokers)
                ]
                return MetadataResponse(cluster_id="c", brokers=nodes, controller_id=1)
            if key == FIND_COORDINATOR:
                self.lookups += 1
                return FindCoordinatorResponse(node_id=self.coordinator)
            if key == HEARTBEAT:
                self.received += 1
                await self.answering.wait()
                wrong = node != self.coordinator
                return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR if wrong else 0)
            return None

        return answer

    @property
    def connections(self) -> int:
        """The number of connections that were opened."""
        return sum(key == API_VERSIONS for broker in self.brokers for key, _, _ in broker.received)

    def beats(self, node: int) -> list[tuple[int, str]]:
        """Version and group of the heartbeats that a broker received."""
        received = self.brokers[node].received
        return [(version, message.group_id) for key, version, message in received if key == HEARTBEAT]


Made = tuple[TwoBrokers, Upstream, Call[Any]]


@pytest.fixture
async def made(harness: Harness) -> AsyncIterator[Made]:
    brokers = TwoBrokers()
    async with AsyncExitStack() as stack:
        for broker in brokers.brokers:
            await stack.enter_async_context(serving(broker))
        client = ClusterClient([BrokerAddress("127.0.0.1", brokers.brokers[0].port)], SETTINGS)
        stack.callback(client.close)
        request = HeartbeatRequest(group_id="g", member_id="m")
        yield brokers, Upstream(client), harness.call_of(request, VERSION)


async def beat(upstream: Upstream, call: Call[Any]) -> int:
    response = await upstream.at_coordinator(GROUP, "g", HEARTBEAT, call, call.request)
    return int(response.error_code)


async def test_a_coordinator_is_looked_up_once_until_it_moves(made: Made) -> None:
    brokers, upstream, call = made
    assert [await beat(upstream, call), await beat(upstream, call)] == [0, 0]
    assert brokers.lookups == 1
    brokers.coordinator = 0
    assert await beat(upstream, call) == ErrorCode.NOT_COORDINATOR
    assert await beat(upstream, call) == 0
    assert brokers.lookups == 2


async def test_requests_have_the_version_and_the_client_id_of_the_client(made: Made) -> None:
    brokers, upstream, call = made
    await beat(upstream, call)
    assert brokers.beats(1) == [(VERSION, "g")]
    assert "client" in brokers.brokers[1].client_ids


async def test_a_connection_has_one_request_and_is_used_again(made: Made) -> None:
    brokers, upstream, call = made
    await beat(upstream, call)
    used = brokers.connections
    brokers.answering.clear()
    beats = [asyncio.create_task(beat(upstream, call)) for _ in range(2)]
    await eventually(lambda: brokers.received == 3)
    assert brokers.connections == used + 1
    brokers.answering.set()
    assert [await one for one in beats] == [0, 0]
    assert await beat(upstream, call) == 0
    assert brokers.connections == used + 1


async def test_the_connection_of_a_cancelled_request_is_closed(made: Made) -> None:
    brokers, upstream, call = made
    await beat(upstream, call)
    connection = await upstream.client.connection(1, "forwarded 1")
    brokers.answering.clear()
    cancelled = asyncio.create_task(beat(upstream, call))
    await eventually(lambda: brokers.received == 2)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert connection.closed


async def test_versions_of_every_broker_are_requested_once(made: Made) -> None:
    brokers, upstream, _ = made
    brokers.brokers[1].offered[HEARTBEAT] = (0, 2)
    found = await upstream.versions()
    assert sorted(one.offered(HEARTBEAT) for one in found) == [(0, 2), (0, VERSION)]
    used = brokers.connections
    await upstream.versions()
    assert brokers.connections == used
    assert upstream.features == {}


async def test_any_broker_that_can_be_reached_serves_a_request(made: Made) -> None:
    brokers, upstream, call = made
    await upstream.client.refresh([])
    first = upstream.client.metadata.brokers[0]
    closed = {**upstream.client.metadata.brokers, 0: first._replace(port=1)}
    upstream.client.metadata = replace(upstream.client.metadata, brokers=closed)
    assert (await upstream.at_any(HEARTBEAT, call, call.request)).error_code == 0
    assert len(brokers.beats(1)) == 1


async def test_a_broker_that_is_down_does_not_delay_further_clients(made: Made) -> None:
    brokers, upstream, _ = made
    await upstream.client.refresh([])
    first = upstream.client.metadata.brokers[0]
    down = {**upstream.client.metadata.brokers, 2: first._replace(node_id=2, port=1)}
    upstream.client.metadata = replace(upstream.client.metadata, brokers=down)
    assert len(await upstream.versions()) == 2
    used = brokers.connections
    assert len(await upstream.versions()) == 2
    assert brokers.connections == used
    upstream._ask_again = 0.0
    brokers.brokers[0].offered[HEARTBEAT] = (0, 2)
    assert len(await upstream.versions()) == 2


async def test_versions_are_an_error_without_a_broker() -> None:
    with pytest.raises(KafkaError):
        await Upstream(ClusterClient([], SETTINGS)).versions()


async def test_a_coordinator_that_cannot_be_reached_is_an_error(made: Made) -> None:
    brokers, upstream, call = made
    brokers.coordinator = 7
    with pytest.raises(KafkaError) as failed:
        await beat(upstream, call)
    assert failed.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_error_codes_are_found_at_every_depth() -> None:
    part = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0, error_code=16)
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[part])
    assert error_codes(OffsetCommitResponse(topics=[topic])) == {16}
    assert error_codes(HeartbeatResponse()) == set()


def test_unknown_codes_are_errors_of_the_server() -> None:
    assert known_code(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known_code(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
