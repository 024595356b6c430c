"""Many bytes of hostile Kafka clients delay honest clients for a bounded time and use bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from tests.hostile.attacks import Attack
from tests.hostile.byte_attacks import PRODUCE, byte_attacks
from tests.hostile.memory import cpu_seconds, peak_memory
from tests.support import kafka_client
from tests.support.client import connected
from tests.support.kafka_client import KafkaClient, part
from tests.testkit.brokers import one_process
from tests.unit.record_log.batches import batch

pytestmark = [
    pytest.mark.xdist_group("hostile-bytes"),  # one attack at a time
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]

SECONDS: Final = 3.0
LONGEST_WAIT: Final = 5.0
"""CPU seconds of the server while an honest request waits.

Other processes do not prolong this time. A request that waits without any CPU fails after `TIMEOUT`.
Measured on a machine with two idle cores: 1.2 seconds by the clock."""

MEMORY: Final = 512 << 20
"""Bytes of the server: the budget of 128 MiB, copies of a request, the server itself. Measured: 350 MiB."""

SIZES: Final = (10, 500_000)
"""Bytes of records that fit in what each connection may buffer, and of records that need shared memory."""


async def produce(kafka: KafkaClient, topic: str, size: int) -> int:
    """Produces one record; returns the error code."""
    data = part(PRODUCE, "PartitionProduceData", index=0, records=batch(1, size))
    topics = [part(PRODUCE, "TopicProduceData", name=topic, partition_data=[data])]
    response = await kafka.ask(PRODUCE, 9, acks=-1, timeout_ms=20_000, topic_data=topics)
    return int(response.responses[0].partition_responses[0].error_code)


async def longest_wait(kafka: KafkaClient, topic: str, seconds: float, clock: Callable[[], float]) -> float:
    """Produces small and large records for some seconds; returns the longest wait by the clock."""
    longest, end = 0.0, monotonic() + seconds
    while monotonic() < end:
        for size in SIZES:
            begun = clock()
            assert await produce(kafka, topic, size) == 0
            longest = max(longest, clock() - begun)
        await asyncio.sleep(0.02)
    return longest


@pytest.mark.parametrize("attack", list(byte_attacks()), ids=lambda attack: attack.name)
async def test_an_attack_costs_bounded_time_and_memory(attack: Attack) -> None:
    with one_process("--fsync", "everysec") as cluster:
        send = await attack.prepare(cluster)
        async with connected(cluster.address) as client, kafka_client.connected(cluster.kafka) as kafka:
            topic, _ = await client.create()
            await client.publish(topic, ["x"])
            sending = asyncio.ensure_future(send(60.0))
            wait = await longest_wait(kafka, topic, SECONDS, partial(cpu_seconds, cluster))
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        peak = peak_memory(cluster)
        assert wait < LONGEST_WAIT
        assert peak < MEMORY
        assert "UNKNOWN_SERVER_ERROR" not in cluster.processes[0].log
