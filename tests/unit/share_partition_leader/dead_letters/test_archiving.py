"""Share-partitions have what the mover needs, and are reported to it."""

from __future__ import annotations

import pytest

from sharebroker_server.share_partition_leader.core.events import Effects, LettersWritten
from sharebroker_server.share_partition_leader.dead_letters.archiving import ArchivingPartition
from tests.unit.share_partition_leader.harness import TOPIC, Harness


async def test_share_partitions_can_be_moved(harness: Harness) -> None:
    partition: ArchivingPartition = await harness.share_partition()
    assert not partition.core.archiving(1)
    assert not partition.core.archiving_ranges()
    assert partition.core.failed_under == (1, 1)
    assert partition.log is (await harness.leadership.led(TOPIC, 0)).own_log
    partition.handle(LettersWritten([(0, 5)]))


def archiving_effects(*_: object) -> Effects:
    effects = Effects()
    effects.archiving = True
    return effects


async def test_archiving_records_are_reported(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    harness.leadership.archiving = reported.append
    await harness.publish(1)
    partition = await harness.share_partition()
    monkeypatch.setattr(type(partition.core), "handle", archiving_effects)
    partition.handle(LettersWritten([]))
    assert reported == [partition]
