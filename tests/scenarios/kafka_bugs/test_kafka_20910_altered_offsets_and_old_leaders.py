"""KAFKA-20910: offsets were altered without a new state epoch; a leader continued with its old state."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.share_coordinator.core import machine
from sharebroker_server.share_coordinator.core.commands import Write
from sharebroker_server.share_coordinator.core.state import ShareState
from tests.scenarios.kafka_bugs.safeguards import acquired, fails_without
from tests.unit.share_partition_leader.harness import ACCEPT, Harness, code


async def assert_old_acquisitions_are_rejected(harness: Harness) -> None:
    await harness.publish(10)
    assert await acquired(harness, "m1") == list(range(10))
    await harness.initialize(state_epoch=2, start=3)
    assert code(await harness.acknowledge((0, 9, ACCEPT), member="m1")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await harness.start_offset() == 3
    assert await acquired(harness, "m2") == [3, 4, 5, 6, 7, 8, 9]


async def test_records_acquired_before_an_alteration_are_not_accepted(harness: Harness) -> None:
    await assert_old_acquisitions_are_rejected(harness)


def under_any_epoch(command: Write, state: ShareState | None) -> ShareState:
    assert state is not None
    return state


async def test_without_the_state_epoch_records_are_accepted(harness: Harness) -> None:
    unchecked = (machine, "check_write", under_any_epoch)
    await fails_without(unchecked, assert_old_acquisitions_are_rejected, harness)
