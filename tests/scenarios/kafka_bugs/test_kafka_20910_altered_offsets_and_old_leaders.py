"""KAFKA-20910: offsets were altered without a new state epoch; a leader went on with what it knew."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.share_coordinator.core import machine
from sharebroker_server.share_coordinator.core.commands import Write
from sharebroker_server.share_coordinator.core.state import ShareState
from tests.scenarios.kafka_bugs.telling import fails_without, given
from tests.unit.share_partition_leader.world import ACCEPT, World, code


async def what_was_held_before_the_alteration_is_not_accepted(world: World) -> None:
    await world.publish(10)
    assert await given(world, "m1") == list(range(10))
    await world.initialize(state_epoch=2, start=3)
    assert code(await world.acknowledge((0, 9, ACCEPT), member="m1")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await world.start_offset() == 3
    assert await given(world, "m2") == [3, 4, 5, 6, 7, 8, 9]


async def test_what_was_held_before_the_alteration_is_not_accepted(world: World) -> None:
    await what_was_held_before_the_alteration_is_not_accepted(world)


def under_any_epoch(command: Write, state: ShareState | None) -> ShareState:
    assert state is not None
    return state


async def test_without_a_state_epoch_that_counts_it_is(world: World) -> None:
    unchecked = (machine, "check_write", under_any_epoch)
    await fails_without(unchecked, what_was_held_before_the_alteration_is_not_accepted, world)
