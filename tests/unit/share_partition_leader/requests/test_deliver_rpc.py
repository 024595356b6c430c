"""The opening of a Deliver stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from tests.unit.share_partition_leader.harness import Harness


@pytest.mark.parametrize(
    "opening",
    [
        pb.DeliverRequest(),
        pb.DeliverRequest(open=pb.DeliverRequest.Open(group_id="g")),
        pb.DeliverRequest(open=pb.DeliverRequest.Open(member_id="m")),
        pb.DeliverRequest(
            open=pb.DeliverRequest.Open(group_id="g", member_id="m", acquire_mode=9)  # type: ignore[arg-type]
        ),
    ],
)
async def test_invalid_opening_of_a_stream_is_rejected(harness: Harness, opening: pb.DeliverRequest) -> None:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        yield opening

    with pytest.raises(KafkaError) as failure:
        await anext(harness.stub.Deliver(requests()))
    assert failure.value.code is ErrorCode.INVALID_REQUEST
