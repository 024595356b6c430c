"""Arbitrary bytes, in every method for clients: a response, or an error with details; never a failure.

`make fuzz` sends twenty times as many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import TRANSPORT, ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2, plan_pb2, produce_pb2, share_pb2
from sharebroker_protocol.keda import externalscaler_pb2
from sharebroker_protocol.rpc_status import from_rpc_error
from tests.support.client import TIMEOUT, connected
from tests.support.proto_bytes import Values, any_bytes
from tests.testkit.brokers import Cluster, one_process
from tests.unit.record_log.batches import batch

pytestmark = pytest.mark.xdist_group("any gRPC request")

SECONDS: Final = 45.0
"""A response on a busy machine takes less."""

EXAMPLES: Final = min(settings().max_examples // 2, 500)

REMOVING: Final = ("Delete", "Alter")
"""These run last, since they remove what the others read."""

_METADATA: Final = "externalscaler.ScaledObjectRef.ScalerMetadataEntry"
_LARGEST: Final = (1 << 31) - 1

FILES: Final = (share_pb2, produce_pb2, plan_pb2, admin_pb2, externalscaler_pb2)
GRPCS_OWN: Final = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
METHODS: Final = sorted(
    (
        method
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ),
    key=lambda method: method.name.startswith(REMOVING),
)


@dataclass(frozen=True)
class Harness:
    """A server with a topic, a group and a member, and their names in requests."""

    cluster: Cluster
    channel: grpc.Channel
    values: Values = field(repr=False)


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with one_process("--fsync", "everysec") as cluster:
        values = asyncio.run(_values(cluster))
        with grpc.insecure_channel(cluster.address) as channel:
            yield Harness(cluster, channel, values)
        assert "unexpected exception" not in cluster.processes[0].log


async def _values(cluster: Cluster) -> Values:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(2)
        group = await client.group()
        await client.publish(topic, ["value"] * 5, partition=0)
        await client.acquire_all(group, topic, 2, "member")
        opened = await client.plans.OpenSession(
            plan_pb2.OpenSessionRequest(group_id=group, session_id="session"), timeout=TIMEOUT
        )
    batches = st.sampled_from([batch(1), batch(1) * 2, batch(1)[:-1], b""])
    names = st.sampled_from([*[topic] * 8, "unknown", "", "x" * 250])
    return {
        **dict.fromkeys(("topic", "topics", "names", "topic_name"), names),
        "name": st.sampled_from([topic, group, "", "max.message.bytes"]),
        f"{_METADATA}.value": st.sampled_from([group, topic, "5", ""]),
        "topic_id": st.sampled_from([*[topic_id] * 6, "A" * 22, "x"]),
        **dict.fromkeys(("group_id", "group_ids"), st.sampled_from([*[group] * 8, "unknown", ""])),
        "member_id": st.sampled_from(["member", "member", "another", "x" * 37]),
        **dict.fromkeys(("records", "record_batches"), batches),
        "session_id": st.sampled_from(["session", "session", ""]),
        "epoch": st.sampled_from([opened.epoch, opened.epoch, 0]),
        f"{_METADATA}.key": st.sampled_from(["group", "topic", "lagPerWorker", "x"]),
        **dict.fromkeys(("member_epoch", "share_session_epoch"), st.sampled_from([0, 0, 0, 1, -1])),
        **dict.fromkeys(("max_records", "credit", "max_bytes"), st.sampled_from([1, 1, 5, 100_000, -1])),
        "partition": st.sampled_from([0, 0, 1, 2, -1]),
        **dict.fromkeys(("max_wait_ms", "timeout_ms"), st.sampled_from([0, 0, 1, -1, _LARGEST])),
    }


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@given(data=st.data())
@settings(max_examples=EXAMPLES, database=None, phases=[Phase.generate])
def test_every_request_ends_as_documented(
    harness: Harness, method: MethodDescriptor, data: st.DataObject
) -> None:
    one = any_bytes(method.input_type, harness.values)
    requests = data.draw(
        st.lists(one, min_size=1, max_size=3) if method.client_streaming else one.map(lambda each: [each])
    )
    try:
        responses = _send(harness.channel, method, requests)
    except grpc.RpcError as failure:
        error = from_rpc_error(failure)
        assert TRANSPORT not in error.metadata, f"no details: {error.metadata}: {error.message}"
        assert error.code not in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT), error.message
    else:
        for response in responses:
            message = GetMessageClass(method.output_type).FromString(response)
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in set(_codes(message)), message


@pytest.mark.parametrize("path", GRPCS_OWN)
def test_malformed_requests_to_grpcs_own_services_are_rejected(harness: Harness, path: str) -> None:
    call: Any = harness.channel.stream_stream(path)
    with pytest.raises(grpc.RpcError) as raised:
        list(call(iter([b"\xff\xff"]), timeout=SECONDS))
    error = from_rpc_error(raised.value)
    assert error.code is ErrorCode.INVALID_REQUEST
    assert TRANSPORT not in error.metadata


def _send(channel: grpc.Channel, method: MethodDescriptor, requests: list[bytes]) -> list[bytes]:
    """Returns the responses, without those after the first of a stream that has no end."""
    call: Any = channel.stream_stream(f"/{method.containing_service.full_name}/{method.name}")
    responses = call(iter(requests), timeout=SECONDS)
    if method.server_streaming and not method.client_streaming:
        first = next(responses)
        responses.cancel()
        return [first]
    return list(responses)


def _codes(message: Message) -> Iterator[int]:
    """Yields the error codes of a response and of its parts."""
    for part, value in message.ListFields():
        if part.name == "error_code":
            yield value
        elif part.message_type is not None and not part.message_type.GetOptions().map_entry:
            for each in value if part.is_repeated else [value]:
                yield from _codes(each)
