"""Records decoded by the gateway."""

from __future__ import annotations

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.requests import consuming, own_membership, stream_of


async def test_records_are_decoded_with_all_fields(harness: Harness) -> None:
    builder = BatchBuilder(CODECS["gzip"], 1000)
    builder.append(1_700_000_000_000, b"N1", b"late", [("carrier", b"UA")])
    builder.append(1_700_000_000_001, None, b"\xff")
    builder.append(1_700_000_000_002, b"N3", None)
    first = own_membership(0, credit=4)
    first.subscribe.decode = first.subscribe.as_text = True
    async with consuming(harness, first) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        stream.deliver(0, 0, 3, builder.build())  # the last offset has no record
        message = await call.read()
        assert [(r.offset, r.WhichOneof("payload"), r.key) for r in message.records] == [
            (0, "text", b"N1"),
            (1, "value", b""),
            (2, None, b"N3"),
        ]
        record = message.records[0]
        assert (record.topic, record.text, record.lock_token, record.delivery_count) == (
            "flights",
            "late",
            7,
            1,
        )
        assert [(header.key, header.value) for header in record.headers] == [("carrier", b"UA")]
        # The gateway acknowledges the gap itself; the client receives nothing about it.
        await eventually(lambda: stream.acknowledged and stream.credit == 5)
        (gap,) = stream.requests[-2].acknowledgements
        assert (gap.first_offset, gap.last_offset, gap.type) == (3, 3, delivery.ACKNOWLEDGE_TYPE_GAP)
        stream.out.put_nowait(
            leader.DeliverResponse(
                results=[delivery.AcknowledgementResult(id=gap.id), delivery.AcknowledgementResult(id=5)]
            )
        )
        assert [result.id for result in (await call.read()).results] == [5]
