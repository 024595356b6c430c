"""Messages of Consume streams, and the streams at a leader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.rpc_status import from_rpc_error
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, Leader, Stream

ACCEPT = delivery.ACKNOWLEDGE_TYPE_ACCEPT


def subscribe(**fields: Any) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(
        subscribe=pb.ConsumeRequest.Subscribe(group_id="group", **fields), credit=fields.pop("credit", 0)
    )


def own_membership(*partitions: int, credit: int = 0) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(
        subscribe=pb.ConsumeRequest.Subscribe(group_id="group", member_id="me"),
        assignment=assignment(*partitions),
        credit=credit,
    )


def assignment(*partitions: int) -> pb.ConsumeRequest.Assignment:
    parts = [delivery.TopicPartition(topic_id=TOPIC.topic_id, partition=index) for index in partitions]
    return pb.ConsumeRequest.Assignment(partitions=parts)


def ack(number: int, partition: int = 0) -> delivery.Acknowledgement:
    return delivery.Acknowledgement(
        id=number,
        topic_id=TOPIC.topic_id,
        partition=partition,
        first_offset=number,
        type=ACCEPT,
        lock_token=7,
    )


@asynccontextmanager
async def consuming(harness: Harness, first: pb.ConsumeRequest) -> AsyncIterator[Any]:
    call = harness.share.Consume()
    await call.write(first)
    yield call
    call.cancel()


async def stream_of(fake: Leader, number: int = 0) -> Stream:
    await eventually(lambda: len(fake.streams) > number and fake.streams[number].requests)
    return fake.streams[number]


async def refusal(call: Any) -> KafkaError:
    """Returns the error that ends a call; earlier messages are ignored."""

    async def to_the_end() -> None:
        while await call.read() is not grpc.aio.EOF:
            pass

    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await to_the_end()
    return from_rpc_error(ended.value)
