"""Consume streams that are not read use bounded memory together, and an honest client goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.hostile.attacks import Attack
from tests.hostile.grpc_attacks import unread_attacks
from tests.hostile.honest import honest_client
from tests.hostile.memory import peak_memory
from tests.testkit.brokers import one_process

pytestmark = [
    pytest.mark.xdist_group("hostile-bytes"),  # one attack at a time
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]

SECONDS: Final = 5.0
ATTACKS: Final = {attack.name: attack for attack in unread_attacks()}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_streams_that_are_not_read_use_bounded_memory(attack: Attack) -> None:
    with one_process("--fsync", "everysec") as cluster:
        send = await attack.prepare(cluster)
        async with honest_client(cluster.address) as honest:
            await send(SECONDS)
        assert not honest.failures
        assert peak_memory(cluster) < attack.max_memory
        assert "UNKNOWN_SERVER_ERROR" not in cluster.processes[0].log
