"""Changes of groups as gateways send them on: each try can be told from those before it."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.gateway.admin.groups import alter_offsets, delete_groups, delete_offsets
from sharebroker_server.gateway.clients.deadline import Deadline
from tests.unit.gateway.conftest import Harness

SOON = 5.0


async def test_each_try_names_the_epoch_that_its_group_has_by_then(harness: Harness) -> None:
    harness.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)]
    await alter_offsets(harness.gateway, group.AlterShareGroupOffsetsRequest(group_id="g"), Deadline(SOON))
    await delete_offsets(harness.gateway, group.DeleteShareGroupOffsetsRequest(group_id="g"), Deadline(SOON))
    await delete_groups(harness.gateway, group.DeleteGroupsRequest(group_ids=["g"]), Deadline(SOON))
    assert harness.coordinator.changes == [1, 2, 3, 4]


async def test_epoch_named_by_the_caller_is_used(harness: Harness) -> None:
    change = group.AlterShareGroupOffsetsRequest(group_id="g", group_epoch=7)
    await alter_offsets(harness.gateway, change, Deadline(SOON))
    await delete_groups(
        harness.gateway, group.DeleteGroupsRequest(group_ids=["g"], group_epochs={"g": 7}), Deadline(SOON)
    )
    assert harness.coordinator.changes == [7, 7]
