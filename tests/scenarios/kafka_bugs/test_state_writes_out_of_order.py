"""Apache Kafka #23074, #23112: a late write moved the start offset, or the count of finished records,
back.
"""

from __future__ import annotations

from sharebroker_protocol.model import RecordState, StateBatch, StateWrite
from sharebroker_server.share_coordinator.core import checkpointing
from sharebroker_server.share_coordinator.core.state import ShareState
from tests.scenarios.kafka_bugs.safeguards import KEY, fails_without
from tests.unit.share_partition_leader.harness import Harness


def accepted(first: int, last: int) -> StateBatch:
    return StateBatch(first, last, RecordState.ACKNOWLEDGED, 1)


async def led(harness: Harness) -> int:
    """Returns the epoch under which state is written."""
    epoch = (await harness.leadership.led(KEY.topic_id, KEY.partition)).log.epoch
    await harness.persister.read(KEY, epoch)
    return epoch


async def assert_completion_count_does_not_decrease(harness: Harness) -> None:
    epoch = await led(harness)
    await harness.persister.write(KEY, StateWrite(1, epoch, 0, 3, (accepted(1, 3),)))
    await harness.persister.write(KEY, StateWrite(1, epoch, 0, 1, (accepted(1, 1),)))
    assert (await harness.persister.read_summary(KEY)).delivery_complete_count == 3


async def assert_higher_start_offset_drops_lower_states(harness: Harness) -> None:
    epoch = await led(harness)
    await harness.persister.write(KEY, StateWrite(1, epoch, 0, 3, (accepted(2, 3), accepted(8, 8))))
    await harness.persister.write(KEY, StateWrite(1, epoch, 5, 1, ()))
    await harness.persister.write(KEY, StateWrite(1, epoch, 2, 4, (accepted(2, 4),)))
    state = await harness.persister.read(KEY, epoch)
    assert (state.start_offset, state.batches) == (5, (StateBatch(8, 8, 2, 1),))
    assert (await harness.share_partition()).core.start_offset == 5


def as_it_came(state: ShareState, start_offset: int, count: int) -> tuple[int, int]:
    return start_offset, count


async def test_count_of_finished_records_does_not_decrease(harness: Harness) -> None:
    await assert_completion_count_does_not_decrease(harness)


async def test_without_the_check_the_count_decreases(harness: Harness) -> None:
    taken = (checkpointing, "_advance", as_it_came)
    await fails_without(taken, assert_completion_count_does_not_decrease, harness)


async def test_higher_start_offset_stays_and_drops_states(harness: Harness) -> None:
    await assert_higher_start_offset_drops_lower_states(harness)


async def test_without_the_check_the_start_offset_decreases(harness: Harness) -> None:
    taken = (checkpointing, "_advance", as_it_came)
    await fails_without(taken, assert_higher_start_offset_drops_lower_states, harness)
