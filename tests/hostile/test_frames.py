"""HTTP/2 frames that carry no request use bounded memory, and an honest client goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest

from tests.hostile.attacks import Attack
from tests.hostile.frame_attacks import frame_attacks
from tests.hostile.honest import honest_client
from tests.hostile.memory import peak_memory
from tests.testkit.brokers import Cluster, one_process

pytestmark = [
    pytest.mark.xdist_group("hostile-bytes"),  # one attack at a time
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]

SECONDS: Final = 1.5
MEMORY: Final = 400 << 20
"""Bytes of the server during all attacks. Measured: 190 MiB."""

ATTACKS: Final = {attack.name: attack for attack in frame_attacks() if "headers" not in attack.name}
"""gRPC's memory for calls with too many headers grows with the bandwidth of the client (see LIMITS)."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process("--fsync", "everysec") as one:
        yield one


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_frames_without_requests_use_bounded_memory(cluster: Cluster, attack: Attack) -> None:
    send = await attack.prepare(cluster)
    async with honest_client(cluster.address) as honest:
        await send(SECONDS)
    codes = {failure.code() for failure in honest.failures if isinstance(failure, grpc.aio.AioRpcError)}
    assert codes <= {grpc.StatusCode.CANCELLED}, "gRPC cancels some calls while 1,000 wait for the server"
    assert peak_memory(cluster) < MEMORY
    assert "UNKNOWN_SERVER_ERROR" not in cluster.processes[0].log
