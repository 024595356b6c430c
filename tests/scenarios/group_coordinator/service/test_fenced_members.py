"""A fenced member's records are released unless it has joined again."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.group_coordinator.service.fenced_members import FencedMembers
from tests.scenarios.group_coordinator.harness import Broker
from tests.testkit.waiting import eventually


@pytest.mark.parametrize(("member", "expected"), [("absent", [("g", "absent")]), ("present", [])])
async def test_only_absent_members_are_released(
    broker: Broker, member: str, expected: list[tuple[str, str]]
) -> None:
    await broker.create("a", 1)
    await broker.beat("present", 0, "a")
    released: list[tuple[str, str]] = []
    fenced = FencedMembers(broker.host, lambda group, member: released.append((group, member)))
    fenced.release("g", member)
    fenced.release("g", "absent")
    await eventually(lambda: released[-1:] == [("g", "absent")])
    await fenced.close()
    assert [one for one in released if one[1] == member] == (expected * 2 if member == "absent" else [])


async def test_a_shard_that_moved_releases_no_member() -> None:
    class Moved:
        async def request(self, *_: object) -> None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    released: list[object] = []
    fenced = FencedMembers(Moved(), lambda *member: released.append(member))  # type: ignore[arg-type]
    await fenced._release("g", "m")
    await fenced.close()
    assert not released
