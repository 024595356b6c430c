"""Public RPCs need credentials; internal services and health checks do not."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc
import pytest

from sharebroker_server.security.authenticator import Authenticator
from sharebroker_server.security.principal import ANONYMOUS, Principal
from sharebroker_server.security.sasl import LONGEST_TOKEN, MECHANISMS
from sharebroker_server.security.user_access import (
    BasicCredentials,
    UserAccess,
    caller,
    host_of,
    parse_basic,
)
from tests.testkit.sasl import MemoryUsers

PUBLIC = "/sharebroker.gateway.v1.ShareService/Consume"
INTERNAL = "/sharebroker.cluster.v1.ClusterService/CreateTopics"


class Details(NamedTuple):
    """The details of a call."""

    method: str
    invocation_metadata: tuple[tuple[str, str], ...] = ()


class Context:
    """The context of a call with a client certificate, or without one."""

    def __init__(self, *subjects: bytes) -> None:
        self._subjects = subjects

    def auth_context(self) -> dict[str, tuple[bytes, ...]]:
        return {"x509_subject": self._subjects} if self._subjects else {}


def basic(name: str, password: str) -> tuple[tuple[str, str], ...]:
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    return (("x", "y"), ("authorization", f"Basic {token}"))


@pytest.fixture
def authenticator() -> Iterator[Authenticator]:
    made = Authenticator(MECHANISMS, tls=True)
    made.users = MemoryUsers({"alice": "pen:cil"})
    yield made
    made.passwords.close()


async def passes(access: UserAccess, *details: Any) -> bool:
    """Returns whether the interceptor passes the call to the next one."""
    served: Any = grpc.unary_unary_rpc_method_handler(lambda request, _: request)

    async def continuation(_: object) -> Any:
        return served

    call: Any = Details(*details)
    handler = await access.intercept_service(continuation, call)
    assert handler is not None
    if handler is not served:  # a rejection reads no message
        assert handler.request_streaming
    return handler is served


@pytest.mark.parametrize(
    ("metadata", "passed"),
    [
        (basic("alice", "pen:cil"), True),
        (basic("alice", "pencil"), False),
        (basic("eve", "pen:cil"), False),
        ((("authorization", "Bearer abc"),), False),
        ((), False),
    ],
)
async def test_public_calls_need_credentials(
    authenticator: Authenticator, metadata: object, passed: bool
) -> None:
    assert await passes(UserAccess(authenticator), PUBLIC, metadata) is passed


@pytest.mark.parametrize("method", [INTERNAL, "/grpc.health.v1.Health/Check"])
async def test_internal_services_and_health_checks_need_none(
    authenticator: Authenticator, method: str
) -> None:
    assert await passes(UserAccess(authenticator), method)


@pytest.mark.parametrize("method", ["/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/a/b"])
async def test_reflection_and_unknown_methods_need_authentication(
    authenticator: Authenticator, method: str
) -> None:
    assert not await passes(UserAccess(authenticator), method)


async def test_passwords_without_tls_are_rejected() -> None:
    authenticator = Authenticator(MECHANISMS, tls=False)
    authenticator.users = MemoryUsers({"alice": "pen:cil"})
    assert not await passes(UserAccess(authenticator), PUBLIC, basic("alice", "pen:cil"))


@pytest.mark.parametrize(("metadata", "passed"), [((), True), (basic("alice", "wrong"), False)])
async def test_a_certificate_replaces_the_header(
    authenticator: Authenticator, metadata: object, passed: bool
) -> None:
    assert await passes(UserAccess(authenticator, certificates=True), PUBLIC, metadata) is passed


async def test_the_caller_is_the_user_before_the_certificate(authenticator: Authenticator) -> None:
    assert caller(Context()) == ANONYMOUS
    assert caller(Context(b"CN=worker")) == Principal("CN=worker")
    await passes(UserAccess(authenticator), PUBLIC, basic("alice", "pen:cil"))
    assert caller(Context(b"CN=worker")) == Principal("alice")


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"Basic YTpi",
        "",
        "Basic",
        "Basic !",
        "Basic YTpi=x",
        "Basic " + base64.b64encode(b"\xff:b").decode(),
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b":b").decode(),
        "Basic " + base64.b64encode(b"a:").decode(),
        "Basic " + "YTpi" * LONGEST_TOKEN,
    ],
)
def test_malformed_headers_have_no_credentials(header: object) -> None:
    assert parse_basic(header) is None


def test_a_header_has_name_and_password() -> None:
    assert parse_basic("basic YTpiOmM=") == BasicCredentials("a", "b:c")
    assert "b:c" not in repr(parse_basic("basic YTpiOmM="))


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
