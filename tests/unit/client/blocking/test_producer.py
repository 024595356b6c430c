"""The blocking producer, against a scripted gateway."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import ErrorCode, IllegalStateError
from sharebroker.blocking.producer import Producer as BlockingProducer
from tests.unit.client.fake_gateway import FakeGateway


async def test_blocking_producer_retries_and_rejects_after_close(gateway: FakeGateway) -> None:
    gateway.produce_errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def publish() -> None:
        with BlockingProducer(gateway.address) as producer:
            sent = [producer.send("flights", b"%d" % n, partition=0) for n in range(1000)]
            assert sent[999].result(10).offset == 999
            producer.flush()
            assert producer.publish("flights", b"last", partition=0).partition == 0
        producer.close()
        with pytest.raises(IllegalStateError, match="closed"):
            producer.send("flights", b"v")

    await asyncio.to_thread(publish)
    assert gateway.stored(0) == [b"%d" % n for n in range(1000)] + [b"last"]
