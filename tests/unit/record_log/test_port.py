"""What every record store inherits."""

from __future__ import annotations

from tests.testkit.memory.record_log import MemoryRecordStore
from tests.unit.record_log.batches import stored
from tests.unit.record_log.harness import NAME


async def test_log_end_is_the_end_of_the_bounds() -> None:
    store = MemoryRecordStore()
    assert await store.log_end(NAME) == 0
    await store.append(NAME, 1, [stored(0), stored(3)])
    assert await store.log_end(NAME) == 6
