"""Callers of gRPC: their addresses and certificates, and handlers that reject their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sharebroker_server.security.interception import (
    certificate_of,
    certificate_subjects,
    checked,
    ending,
    host_of,
    rejecting,
)


class Context:
    """The context of a call."""

    def __init__(self, **properties: list[bytes]) -> None:
        self._properties = properties

    def auth_context(self) -> dict[str, list[bytes]]:
        return self._properties


def test_subject_of_the_certificate_is_text() -> None:
    context: Any = Context(x509_subject=[b"CN=me,O=\xff"])
    assert certificate_subjects(context) == ["CN=me,O=\ufffd"]


def test_a_caller_without_certificate_has_no_subject() -> None:
    context: Any = Context(peer=[b"x"])
    assert certificate_subjects(context) == []


async def test_rejecting_handler_reads_no_message() -> None:
    rejected: list[Any] = []

    async def reject(context: Any) -> None:
        rejected.append(context)

    handler: Any = rejecting(reject)
    context = Context()
    await handler.stream_stream(None, context)  # without requests to read
    assert rejected == [context]
    assert handler.request_deserializer is None


def test_certificate_of_the_caller() -> None:
    context: Any = Context(x509_pem_cert=[b"-----BEGIN"])
    assert certificate_of(context) == b"-----BEGIN"
    other: Any = Context()
    assert certificate_of(other) is None


async def several(data: list[bytes]) -> AsyncIterator[bytes]:
    for each in data:
        yield each


class Denied(Exception):
    """The check denies the call."""


async def pass_(context: Any) -> None:
    """Returns."""


async def deny(context: Any) -> None:
    raise Denied


async def unary(request: Any, context: Any) -> Any:
    return request


async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
    yield request


async def echo(requests: Any, context: Any) -> AsyncIterator[Any]:
    async for request in requests:
        yield request


def read(data: bytes) -> str:
    return data.decode()


async def test_a_checked_unary_call_reads_its_request_afterwards() -> None:
    handler: Any = grpc.unary_unary_rpc_method_handler(unary, read)
    assert await checked(handler, pass_).unary_unary(b"a", Context()) == "a"  # type: ignore[misc, arg-type]
    with pytest.raises(Denied):
        await checked(handler, deny).unary_unary(b"\xff", Context())  # type: ignore[misc, arg-type]


async def test_a_checked_stream_reads_its_requests_afterwards() -> None:
    handler: Any = checked(grpc.stream_stream_rpc_method_handler(echo, read), pass_)
    assert [each async for each in handler.stream_stream(several([b"a", b"b"]), Context())] == ["a", "b"]
    denied: Any = checked(grpc.stream_stream_rpc_method_handler(echo, read), deny)
    with pytest.raises(Denied):
        await anext(denied.stream_stream(several([b"\xff"]), Context()))


async def test_a_checked_call_with_several_responses() -> None:
    handler: Any = checked(grpc.unary_stream_rpc_method_handler(answers, read), pass_)
    assert [each async for each in handler.unary_stream(b"a", Context())] == ["a"]


async def test_a_checked_call_that_reads_its_request_itself() -> None:
    handler: Any = checked(grpc.stream_unary_rpc_method_handler(unary, read), pass_)
    assert handler.request_deserializer is read
    assert await handler.stream_unary("requests", Context()) == "requests"
    denied: Any = checked(grpc.stream_unary_rpc_method_handler(unary), deny)
    with pytest.raises(Denied):
        await denied.stream_unary("requests", Context())


def ended_stream(ends_at: float, closed: list[str]) -> Any:
    """Returns a stream at 100 s since the epoch that sends one response and then waits."""

    async def waiting(requests: Any, context: Any) -> AsyncIterator[Any]:
        try:
            yield "first"
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    handler: Any = ending(grpc.stream_stream_rpc_method_handler(waiting), ends_at, deny, lambda: 100.0)
    return handler.stream_stream(several([]), Context())


async def test_a_stream_is_rejected_at_its_end() -> None:
    closed: list[str] = []
    responses = ended_stream(100.05, closed)
    assert await anext(responses) == "first"
    with pytest.raises(Denied):
        await anext(responses)
    assert closed == ["closed"]


async def test_a_client_that_leaves_earlier_ends_the_stream() -> None:
    closed: list[str] = []
    responses = ended_stream(200.0, closed)
    assert await anext(responses) == "first"
    await responses.aclose()
    assert closed == ["closed"]


async def test_a_stream_may_end_before() -> None:
    handler: Any = ending(grpc.stream_stream_rpc_method_handler(echo), 200.0, deny, lambda: 100.0)
    assert [each async for each in handler.stream_stream(several([b"a"]), Context())] == [b"a"]


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.7:5000", "10.0.0.7"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[::1]:5000", "::1"),
        ("unix:", "unix:"),
    ],
)
def test_the_host_of_a_peer_is_its_address_without_port(peer: str, host: str) -> None:
    assert host_of(peer) == host
