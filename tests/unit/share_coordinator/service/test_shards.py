"""The shard of each share-partition."""

from __future__ import annotations

from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.share_coordinator.service.shards import make_route
from tests.unit.share_coordinator.harness import TOPIC
from tests.unit.share_coordinator.service.process import GROUP, Process


async def test_keys_map_to_kafkas_shards(process: Process) -> None:
    await process.initialize(0, 1, 2, 3)
    written = {shard for shard, _, _ in process.log.appends}
    assert written == {f"share-coordinator:{shard_of(f'{GROUP}:{TOPIC}:{n}', 50)}" for n in range(4)}


async def test_a_route_is_the_key_and_its_shard(process: Process) -> None:
    key, shard = make_route(process.host)(GROUP, TOPIC, 3)
    assert (key, shard) == ((GROUP, TOPIC, 3), shard_of(f"{GROUP}:{TOPIC}:3", 50))
