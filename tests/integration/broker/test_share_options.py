"""Optional fields of share group RPCs: the length of fetched locks, and the authorized operations."""

from __future__ import annotations

import pytest

from sharebroker_protocol.clock import now
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_server.security.acl import AclOperation
from tests.support.client import TIMEOUT, Client, unique

NOT_REQUESTED = -(1 << 31)


@pytest.mark.parametrize(("lock_ms", "seconds"), [(0, 30), (3_600_000, 3600)])
async def test_fetched_records_are_locked_for_the_requested_time(
    client: Client, lock_ms: int, seconds: int
) -> None:
    topic, topic_id = await client.create()
    group_id, member = await client.group(), unique("member")
    await client.heartbeat(group_id, member, 0, [topic])
    await client.publish(topic, ["a"])
    request = share.ShareFetchRequest(group_id=group_id, member_id=member, max_records=10, max_wait_ms=10_000)
    request.lock_ms = lock_ms
    request.topics.add(topic_id=topic_id).partitions.add(partition_index=0)
    before = now()
    response = await client.share.ShareFetch(request, timeout=TIMEOUT)
    (run,) = response.responses[0].partitions[0].acquired_records
    assert response.acquisition_lock_timeout_ms == 1000 * seconds
    assert before + seconds - 1 <= run.lock_deadline_ms / 1000 <= now() + seconds + 1


async def test_authorized_operations_of_a_group_are_returned_on_request(client: Client) -> None:
    topic, _ = await client.create()
    group_id = await client.group()
    await client.heartbeat(group_id, unique("member"), 0, [topic])
    found = []
    for requested in (False, True):
        request = groups.ShareGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=requested
        )
        response = await client.admin.ShareGroupDescribe(request, timeout=TIMEOUT)
        found.append(response.groups[0].authorized_operations)
    assert found[0] == NOT_REQUESTED
    expected = {
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    }
    assert {operation for operation in AclOperation if found[1] >> operation & 1} == expected
