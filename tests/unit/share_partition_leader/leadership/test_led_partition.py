"""A led partition notifies its share-partitions and its long polls."""

from __future__ import annotations

import asyncio

from tests.unit.share_partition_leader.harness import TOPIC, Harness


async def test_waking_sets_readers_and_notifies_loaded_share_partitions(harness: Harness) -> None:
    share_partition = await harness.share_partition()
    led = await harness.leadership.led(TOPIC, 0)
    assert (led.partition, led.loaded()) == (0, [share_partition])
    notified: list[object] = []

    class Listener:
        def records_available(self, which: object) -> None:
            notified.append(which)

        def retired(self, which: object) -> None:
            raise AssertionError

    share_partition.add_listener(Listener())
    reader = asyncio.Event()
    led.readers.add(reader)
    led.wake()
    assert (reader.is_set(), notified) == (True, [share_partition])
    reader.clear()
    led.wake_readers()
    assert (reader.is_set(), len(notified)) == (True, 1)
