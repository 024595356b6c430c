"""Calls rejected as a whole: gRPC status, ErrorInfo, the invalid fields; nothing changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_server.rpc.message_limits import MAX_MESSAGE
from tests.integration.broker.harness import Harness, undisturbed
from tests.support.client import TIMEOUT, Client, rejection, unique

Call = Callable[[Harness], Awaitable[Any]]


def publish(topic: str | None = None, **record: Any) -> Call:
    def call(harness: Harness) -> Awaitable[Any]:
        records = [produce.PublishRecord(**record)] if record else []
        request = produce.PublishRequest(topic=harness.topic if topic is None else topic, records=records)
        return harness.client.produce.Publish(request, timeout=TIMEOUT)

    return call


def acquire(**changes: Any) -> Call:
    def call(harness: Harness) -> Awaitable[Any]:
        fields: dict[str, Any] = {
            "group_id": harness.group_id,
            "topics": [harness.topic],
            "max_records": 1,
        } | changes
        return harness.client.share.Acquire(share.AcquireRequest(**fields), timeout=TIMEOUT)

    return call


def acknowledge(**changes: Any) -> Call:
    def call(harness: Harness) -> Awaitable[Any]:
        fields: dict[str, Any] = {"topic": harness.topic, "lock_token": 1, "type": 1} | changes
        request = share.AcknowledgeRequest(
            group_id=harness.group_id,
            member_id=harness.member,
            acknowledgements=[share.AcknowledgeRequest.Decision(**fields)],
        )
        return harness.client.share.Acknowledge(request, timeout=TIMEOUT)

    return call


def heartbeat(**changes: Any) -> Call:
    def call(harness: Harness) -> Awaitable[Any]:
        fields: dict[str, Any] = {"group_id": unique("g"), "member_id": "m", "member_epoch": 1} | changes
        if "group_id" in changes and changes["group_id"] is None:
            fields["group_id"] = harness.group_id
        request = groups.ShareGroupHeartbeatRequest(**fields)
        return harness.client.share.ShareGroupHeartbeat(request, timeout=TIMEOUT)

    return call


def fetch(**changes: Any) -> Call:
    def call(harness: Harness) -> Awaitable[Any]:
        fields: dict[str, Any] = {
            "group_id": harness.group_id,
            "member_id": unique("m"),
            "max_records": 1,
        } | changes
        return harness.client.share.ShareFetch(share.ShareFetchRequest(**fields), timeout=TIMEOUT)

    return call


def session_acknowledge(**changes: Any) -> Call:
    def call(harness: Harness) -> Awaitable[Any]:
        fields: dict[str, Any] = {
            "group_id": harness.group_id,
            "member_id": unique("m"),
            "share_session_epoch": 1,
        } | changes
        return harness.client.share.ShareAcknowledge(share.ShareAcknowledgeRequest(**fields), timeout=TIMEOUT)

    return call


def inspect(**changes: Any) -> Call:
    def call(harness: Harness) -> Awaitable[Any]:
        fields: dict[str, Any] = {
            "group_id": harness.group_id,
            "topic_id": harness.topic_id,
            "partition": 0,
        } | changes
        request = state.InspectShareGroupStateRequest(**fields)
        return harness.client.admin.InspectShareGroupState(request, timeout=TIMEOUT)

    return call


JOIN = {"member_epoch": 0, "subscribed_topic_names": groups.TopicNames(names=["t"])}

CASES: dict[str, tuple[Call, ErrorCode, str | None]] = {
    "publish: illegal topic name": (publish("no spaces", text="x"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
    "publish: empty topic name": (publish("", text="x"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
    "publish: topic name too long": (publish("t" * 250, text="x"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
    "publish: unknown topic": (publish("nowhere", text="x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    "publish: nothing": (publish(), ErrorCode.INVALID_REQUEST, "records"),
    "publish: no such partition": (
        publish(text="x", partition=1),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "records[0].partition",
    ),
    "publish: negative partition": (
        publish(text="x", partition=-1),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "records[0].partition",
    ),
    "publish: record too large": (
        publish(value=bytes(1_048_588)),
        ErrorCode.MESSAGE_TOO_LARGE,
        "records[0]",
    ),
    "publish: timestamp before 1970": (
        publish(text="x", timestamp_ms=-5),
        ErrorCode.INVALID_RECORD,
        "records[0].timestamp_ms",
    ),
    "acquire: unknown topic": (acquire(topics=["nowhere"]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    "acquire: illegal topic name": (
        acquire(topics=["fine", "no spaces"]),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "topics[1]",
    ),
    "acquire: no topic": (acquire(topics=[]), ErrorCode.INVALID_REQUEST, "topics"),
    "acquire: no group": (acquire(group_id=""), ErrorCode.INVALID_REQUEST, "group_id"),
    "acquire: member id too long": (acquire(member_id="m" * 37), ErrorCode.INVALID_REQUEST, "member_id"),
    "acquire: too many topics": (acquire(topics=["flights"] * 1001), ErrorCode.INVALID_REQUEST, "topics"),
    "acquire: too many": (acquire(max_records=1001), ErrorCode.INVALID_REQUEST, "max_records"),
    "acquire: less than none": (acquire(max_records=-1), ErrorCode.INVALID_REQUEST, "max_records"),
    "acquire: too patient": (acquire(max_wait_ms=60_001), ErrorCode.INVALID_REQUEST, "max_wait_ms"),
    "acknowledge: unknown topic": (
        acknowledge(topic="nowhere"),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    ),
    "acknowledge: no such type": (acknowledge(type=5), ErrorCode.INVALID_REQUEST, "acknowledgements[0]"),
    "acknowledge: no type": (acknowledge(type=0), ErrorCode.INVALID_REQUEST, "acknowledgements[0].type"),
    "acknowledge: backwards": (
        acknowledge(offset=3, last_offset=2),
        ErrorCode.INVALID_REQUEST,
        "acknowledgements[0]",
    ),
    "acknowledge: negative offset": (
        acknowledge(offset=-5, last_offset=2),
        ErrorCode.INVALID_REQUEST,
        "acknowledgements[0]",
    ),
    "acknowledge: delayed, but no release": (
        acknowledge(type=1, delay_ms=10),
        ErrorCode.INVALID_REQUEST,
        "acknowledgements[0].delay_ms",
    ),
    "heartbeat: no group id": (heartbeat(group_id=""), ErrorCode.INVALID_REQUEST, "group_id"),
    "heartbeat: no member id": (heartbeat(member_id="", **JOIN), ErrorCode.INVALID_REQUEST, "member_id"),
    "heartbeat: member id too long": (
        heartbeat(member_id="m" * 37, **JOIN),
        ErrorCode.INVALID_REQUEST,
        "member_id",
    ),
    "heartbeat: joins without topics": (heartbeat(member_epoch=0), ErrorCode.INVALID_REQUEST, None),
    "heartbeat: joins with an illegal topic name": (
        heartbeat(member_epoch=0, subscribed_topic_names=groups.TopicNames(names=["t" * 250])),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "subscribed_topic_names.names[0]",
    ),
    "heartbeat: no such epoch": (heartbeat(member_epoch=-2), ErrorCode.INVALID_REQUEST, None),
    "heartbeat: unknown group": (heartbeat(), ErrorCode.GROUP_ID_NOT_FOUND, None),
    "heartbeat: unknown member": (heartbeat(group_id=None), ErrorCode.UNKNOWN_MEMBER_ID, None),
    "fetch: no such session": (fetch(share_session_epoch=5), ErrorCode.SHARE_SESSION_NOT_FOUND, None),
    "fetch: member id too long": (fetch(member_id="m" * 37), ErrorCode.INVALID_REQUEST, "member_id"),
    "fetch: lock too short": (fetch(lock_ms=999), ErrorCode.INVALID_REQUEST, "lock_ms"),
    "fetch: waits less than nothing": (fetch(max_wait_ms=-1), ErrorCode.INVALID_REQUEST, "max_wait_ms"),
    "fetch: renews and fetches": (fetch(is_renew_ack=True), ErrorCode.INVALID_REQUEST, "max_records"),
    "session: opened by an acknowledgement": (
        session_acknowledge(share_session_epoch=0),
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        None,
    ),
    "session: acknowledged without one": (session_acknowledge(), ErrorCode.SHARE_SESSION_NOT_FOUND, None),
    "session: closed without one": (
        session_acknowledge(share_session_epoch=-1),
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        None,
    ),
    "inspect: no group": (inspect(group_id=""), ErrorCode.INVALID_REQUEST, None),
    "inspect: no topic id": (inspect(topic_id="x"), ErrorCode.INVALID_REQUEST, None),
    "inspect: negative partition": (inspect(partition=-1), ErrorCode.INVALID_REQUEST, None),
}


async def test_invalid_calls_are_rejected_and_change_nothing(client: Client) -> None:
    async with undisturbed(client) as harness:
        refused = {name: await rejection(call(harness)) for name, (call, _, _) in CASES.items()}
    for name, (_, code, field) in CASES.items():
        assert refused[name].code is code, name
        assert refused[name].text, name
        if field is not None:
            assert refused[name].fields == (field,), name


async def test_heartbeat_with_a_wrong_epoch_is_fenced(client: Client) -> None:
    async with undisturbed(client) as harness:
        group_id, member, other = await client.group(), unique("m"), (await client.create())[0]
        epochs = [0]
        for topics in ([harness.topic], [harness.topic, other], [other]):
            joined = await client.heartbeat(group_id, member, epochs[-1], topics)
            assert joined.member_epoch > epochs[-1]
            epochs.append(joined.member_epoch)
        for epoch in (epochs[1], epochs[-1] + 1, epochs[-1] + 1000):
            refused = await rejection(client.heartbeat(group_id, member, epoch))
            assert refused.code is ErrorCode.FENCED_MEMBER_EPOCH
        assert (await client.heartbeat(group_id, member, epochs[-1])).member_epoch == epochs[-1]
        await client.heartbeat(group_id, member, -1)
        assert (
            await rejection(client.heartbeat(group_id, member, epochs[-1]))
        ).code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_wrong_session_epochs_are_rejected(client: Client) -> None:
    async with undisturbed(client) as harness:
        fetches = fetch(member_id="s1", share_session_epoch=0, max_records=0)
        await fetches(harness)
        for epoch in (2, 7):
            refused = await rejection(fetch(member_id="s1", share_session_epoch=epoch)(harness))
            assert refused.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        await fetch(member_id="s1", share_session_epoch=1, max_records=0)(harness)
        for call in (fetch(member_id="s1", share_session_epoch=1), session_acknowledge(member_id="s1")):
            assert (await rejection(call(harness))).code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        await session_acknowledge(member_id="s1", share_session_epoch=-1)(harness)
        refused = await rejection(fetch(member_id="s1", share_session_epoch=2)(harness))
        assert refused.code is ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("first", "field"),
    [
        (share.ConsumeRequest(credit=1), "subscribe"),
        (share.ConsumeRequest(subscribe=share.ConsumeRequest.Subscribe(topics=["t"])), "subscribe.group_id"),
        (
            share.ConsumeRequest(subscribe=share.ConsumeRequest.Subscribe(group_id="g")),
            "subscribe.topics",
        ),
        (
            share.ConsumeRequest(
                subscribe=share.ConsumeRequest.Subscribe(group_id="g", topics=["t"], member_id="m" * 37)
            ),
            "subscribe.member_id",
        ),
        (
            share.ConsumeRequest(
                subscribe=share.ConsumeRequest.Subscribe(
                    group_id="g",
                    topics=["t"],
                    acquire_mode=9,  # type: ignore[arg-type]  # what a newer client might send
                )
            ),
            "subscribe.acquire_mode",
        ),
        (
            share.ConsumeRequest(
                subscribe=share.ConsumeRequest.Subscribe(group_id="g", topics=["t"]), credit=-1
            ),
            "credit",
        ),
    ],
)
async def test_consume_stream_with_an_invalid_opening_is_rejected(
    client: Client, first: share.ConsumeRequest, field: str
) -> None:
    call = client.share.Consume()
    await call.write(first)
    refused = await rejection(call.read())
    assert (refused.code, refused.fields) == (ErrorCode.INVALID_REQUEST, (field,))


async def test_credit_overflow_is_rejected(client: Client) -> None:
    call = client.share.Consume()
    subscribe = share.ConsumeRequest.Subscribe(group_id="g", member_id="m")
    await call.write(share.ConsumeRequest(subscribe=subscribe, credit=2**31 - 1))
    opened = await call.read()
    assert isinstance(opened, share.ConsumeResponse)
    assert opened.subscribed.member_id == "m"
    await call.write(share.ConsumeRequest(credit=1))
    refused = await rejection(call.read())
    assert (refused.code, refused.fields) == (ErrorCode.INVALID_REQUEST, ("credit",))


async def test_consume_stream_with_an_invalid_topic_is_rejected(client: Client) -> None:
    call = client.share.Consume()
    subscribe = share.ConsumeRequest.Subscribe(group_id="g", topics=["not-yet", "naïve"])
    await call.write(share.ConsumeRequest(subscribe=subscribe, credit=1))
    refused = await rejection(call.read())
    assert (refused.code, refused.fields) == (ErrorCode.INVALID_TOPIC_EXCEPTION, ("subscribe.topics[1]",))


async def test_oversized_message_is_rejected_and_the_connection_stays_open(client: Client) -> None:
    async with undisturbed(client) as harness:
        refused = await rejection(publish(value=bytes(MAX_MESSAGE))(harness))
        assert refused.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(grpc.aio.AioRpcError) as failed:  # gRPC itself rejects a message beyond its limit
            await publish(value=bytes(64 * 1024 * 1024))(harness)
        assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
