"""Changes of groups as gateways send them on: each try can be told from those before it."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.gateway.admin.groups import alter_offsets, delete_groups, delete_offsets
from sharebroker_server.gateway.clients.deadline import Deadline
from tests.unit.gateway.conftest import Bench

SOON = 5.0


async def test_each_try_names_the_epoch_that_its_group_has_by_then(bench: Bench) -> None:
    bench.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)]
    await alter_offsets(bench.gateway, group.AlterShareGroupOffsetsRequest(group_id="g"), Deadline(SOON))
    await delete_offsets(bench.gateway, group.DeleteShareGroupOffsetsRequest(group_id="g"), Deadline(SOON))
    await delete_groups(bench.gateway, group.DeleteGroupsRequest(group_ids=["g"]), Deadline(SOON))
    assert bench.coordinator.changes == [1, 2, 3, 4]


async def test_the_requested_metric_name_is_used(bench: Bench) -> None:
    change = group.AlterShareGroupOffsetsRequest(group_id="g", group_epoch=7)
    await alter_offsets(bench.gateway, change, Deadline(SOON))
    await delete_groups(
        bench.gateway, group.DeleteGroupsRequest(group_ids=["g"], group_epochs={"g": 7}), Deadline(SOON)
    )
    assert bench.coordinator.changes == [7, 7]
