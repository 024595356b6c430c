"""Messages of hostile gRPC clients delay honest clients for a bounded time and use bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.hostile.attacks import MAX_MEMORY, Attack
from tests.hostile.grpc_attacks import grpc_attacks
from tests.hostile.honest import honest_client
from tests.hostile.memory import peak_memory
from tests.testkit.brokers import Cluster, one_process

pytestmark = [
    pytest.mark.xdist_group("hostile-bytes"),  # one attack at a time
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]

SECONDS: Final = 1.5
LONGEST_WAIT: Final = 5.0
"""Seconds; 0.6 on a machine with two busy cores."""

ATTACKS: Final = {attack.name: attack for attack in grpc_attacks()}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process("--fsync", "everysec") as one:
        yield one


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_messages_cost_bounded_time_and_memory(cluster: Cluster, attack: Attack) -> None:
    send = await attack.prepare(cluster)
    async with honest_client(cluster.address) as honest:
        await send(SECONDS)
        waits = (honest.publishes.longest, honest.acquires.longest, honest.acknowledges.longest)
    assert not honest.failures
    assert max(waits) < LONGEST_WAIT
    assert peak_memory(cluster) < MAX_MEMORY
    assert "UNKNOWN_SERVER_ERROR" not in cluster.processes[0].log
