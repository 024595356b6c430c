"""Public RPCs need credentials; internal services and health checks do not."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.access_tokens import AccessToken
from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.principal_mapping import PrincipalMapping
from sharebroker_server.security.authentication.sasl import MECHANISMS
from sharebroker_server.security.authentication.scram import OAUTHBEARER
from sharebroker_server.security.principal import ANONYMOUS, Principal
from sharebroker_server.security.user_access import UserAccess, caller
from tests.testkit.certificates import certificate_for
from tests.testkit.sasl import MemoryUsers

PUBLIC = "/sharebroker.gateway.v1.ShareService/Consume"
ALL = PrincipalMapping.parse("DEFAULT")
WORKER = certificate_for(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "worker")]))
INTERNAL = "/sharebroker.cluster.v1.ClusterService/CreateTopics"


class Details(NamedTuple):
    """The details of a call."""

    method: str
    invocation_metadata: tuple[tuple[str, str], ...] = ()


class Context:
    """The context of a call with a client certificate, or without one."""

    def __init__(self, *certificates: bytes) -> None:
        self._certificates = certificates

    def auth_context(self) -> dict[str, tuple[bytes, ...]]:
        return {"x509_pem_cert": self._certificates} if self._certificates else {}


def basic(name: str, password: str) -> tuple[tuple[str, str], ...]:
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    return (("x", "y"), ("authorization", f"Basic {token}"))


@pytest.fixture
def authenticator() -> Iterator[Authenticator]:
    made = Authenticator(MECHANISMS, tls=True)
    made.users = MemoryUsers({"alice": "pen:cil"})
    yield made
    made.passwords.close()


async def passes(access: UserAccess, *details: Any, unary: bool = False) -> bool:
    """Returns whether the interceptor passes the call to the next one unchanged."""
    served: Any = grpc.unary_unary_rpc_method_handler(lambda request, _: request)

    async def continuation(_: object) -> Any:
        return served

    call: Any = Details(*details)
    handler = await access.intercept_service(continuation, call)
    assert handler is not None
    if handler is not served:  # a rejection reads no message
        assert handler.request_streaming is not unary
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


async def test_an_unauthenticated_call_of_no_method_is_unimplemented(authenticator: Authenticator) -> None:
    async def continuation(_: object) -> Any:
        return None

    call: Any = Details("/a/b")
    assert await UserAccess(authenticator).intercept_service(continuation, call) is None


async def test_passwords_without_tls_are_rejected() -> None:
    authenticator = Authenticator(MECHANISMS, tls=False)
    authenticator.users = MemoryUsers({"alice": "pen:cil"})
    assert not await passes(UserAccess(authenticator), PUBLIC, basic("alice", "pen:cil"))


@pytest.mark.parametrize(("metadata", "passed"), [((), True), (basic("alice", "wrong"), False)])
async def test_a_certificate_replaces_the_header(
    authenticator: Authenticator, metadata: object, passed: bool
) -> None:
    assert await passes(UserAccess(authenticator, ALL), PUBLIC, metadata) is passed


async def test_without_users_the_certificate_decides_whatever_the_header() -> None:
    assert await passes(UserAccess(None, ALL), PUBLIC, basic("alice", "wrong"))


@pytest.mark.parametrize(("metadata", "passed"), [((), True), (basic("alice", "wrong"), False)])
async def test_requested_authentication_serves_callers_without_the_header(
    metadata: object, passed: bool
) -> None:
    authenticator = Authenticator(MECHANISMS, tls=True, required=False)
    assert await passes(UserAccess(authenticator), PUBLIC, metadata) is passed
    assert caller(Context()) == ANONYMOUS


async def test_the_caller_is_the_user_before_the_certificate(authenticator: Authenticator) -> None:
    access = UserAccess(authenticator, ALL)
    assert caller(Context(WORKER)) == ANONYMOUS
    await passes(access, PUBLIC)
    assert caller(Context(WORKER)) == Principal("CN=worker")
    assert caller(Context()) == ANONYMOUS
    await passes(access, PUBLIC, basic("alice", "pen:cil"))
    assert caller(Context(WORKER)) == Principal("alice")


async def test_a_certificate_without_a_principal_is_checked_before_the_call() -> None:
    access = UserAccess(None, PrincipalMapping.parse("RULE:CN=boss/boss/"))
    assert not await passes(access, PUBLIC, unary=True)  # the handler checks the certificate first
    with pytest.raises(KafkaError) as caught:
        caller(Context(WORKER))
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


class AliceTokens:
    """Accepts the token `valid` of alice."""

    async def verify(self, token: str) -> AccessToken | None:
        """Returns the token of alice."""
        return AccessToken(Principal("alice"), 100.0) if token == "valid" else None


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


@pytest.mark.parametrize("tls", [True, False])
async def test_access_tokens_authenticate_unary_calls(tls: bool) -> None:
    tokens: Any = AliceTokens()
    access = UserAccess(Authenticator([OAUTHBEARER], tls=tls, tokens=tokens))
    assert await passes(access, PUBLIC, bearer("valid"))
    assert caller(Context()) == Principal("alice")
    assert not await passes(access, PUBLIC, bearer("forged"))
    assert not await passes(UserAccess(Authenticator(["PLAIN"], tls=tls)), PUBLIC, bearer("valid"))


async def test_a_stream_with_an_access_token_ends(authenticator: Authenticator) -> None:
    tokens: Any = AliceTokens()
    access = UserAccess(Authenticator([OAUTHBEARER], tls=True, tokens=tokens))
    served: Any = grpc.stream_stream_rpc_method_handler(lambda requests, _: requests)

    async def continuation(_: object) -> Any:
        return served

    call: Any = Details(PUBLIC, bearer("valid"))
    assert await access.intercept_service(continuation, call) is not served
    access = UserAccess(authenticator)
    call = Details(PUBLIC, basic("alice", "pen:cil"))
    assert await access.intercept_service(continuation, call) is served
