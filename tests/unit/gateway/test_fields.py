"""Consume and Deliver messages are forwarded undecoded, so their shared fields must be equal."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sharebroker_protocol.gateway.v1.share_pb2 import ConsumeRequest, ConsumeResponse
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2 import (
    DeliverRequest,
    DeliverResponse,
)


def shape(field: FieldDescriptor) -> tuple[object, ...]:
    """Fields on the wire."""
    inner = field.message_type
    return field.name, field.number, field.type, field.is_repeated, fields(inner) if inner else None


def fields(message: Descriptor) -> dict[int, tuple[object, ...]]:
    return {field.number: shape(field) for field in message.fields}


def test_consume_and_deliver_requests_share_their_fields() -> None:
    ours, theirs = fields(ConsumeRequest.DESCRIPTOR), fields(DeliverRequest.DESCRIPTOR)
    assert {number: ours[number] for number in (3, 4)} == {number: theirs[number] for number in (3, 4)}


def test_consume_and_deliver_responses_share_their_fields() -> None:
    ours, theirs = fields(ConsumeResponse.DESCRIPTOR), fields(DeliverResponse.DESCRIPTOR)
    assert {number: ours[number] for number in theirs} == theirs
