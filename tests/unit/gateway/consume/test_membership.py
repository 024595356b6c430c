"""The membership that a gateway runs for a stream."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.requests import assignment, consuming, refusal, stream_of, subscribe


async def test_gateway_runs_the_membership(harness: Harness) -> None:
    first = subscribe(topics=["flights"], client_id="worker")
    async with consuming(harness, first) as call:
        reported = (await call.read()).subscribed
        assert len(reported.member_id) == 36
        assert [(t.topic_name, list(t.partitions)) for t in reported.assignment] == [("flights", [0, 1])]
        assert (await stream_of(harness.leader)).partitions == [0, 1]
        joining = harness.coordinator.heartbeats[0]
        assert (joining.member_epoch, list(joining.subscribed_topic_names.names)) == (0, ["flights"])
        assert (joining.client_id, joining.client_host[:5]) == ("worker", "ipv4:")
    await eventually(lambda: harness.coordinator.epochs()[-1] == -1)
    await eventually(lambda: harness.leader.streams[0].closed)
    async with consuming(harness, subscribe(topics=["flights"], member_id=reported.member_id)) as call:
        await call.read()
    heartbeats = harness.coordinator.heartbeats
    again = next(beat for beat in heartbeats if beat.stream_id != joining.stream_id)
    assert again.member_id == joining.member_id
    assert {beat.stream_id for beat in heartbeats if beat.member_epoch <= 0} >= {
        joining.stream_id,
        again.stream_id,
    }


async def test_client_cannot_assign_if_the_gateway_runs_the_membership(harness: Harness) -> None:
    async with consuming(harness, subscribe(topics=["flights"])) as call:
        await call.read()
        await call.write(pb.ConsumeRequest(assignment=assignment(0)))
        assert [violation.field for violation in (await refusal(call)).violations] == ["assignment"]


async def test_rejected_member_ends_the_stream(harness: Harness) -> None:
    harness.coordinator.refusals = [KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)]
    async with consuming(harness, subscribe(topics=["flights"])) as call:
        assert (await refusal(call)).code is ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_membership_follows_a_moved_coordinator(harness: Harness) -> None:
    harness.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)] * 2
    async with consuming(harness, subscribe(topics=["flights"])) as call:
        assert (await call.read()).subscribed.member_epoch == 1
        assert [resource[:17] for resource in harness.ownership.forgotten] == ["group-coordinator"] * 2
