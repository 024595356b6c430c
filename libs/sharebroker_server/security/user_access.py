"""Authenticates the callers of public RPCs: `authorization` (Basic, Bearer), or a client certificate.

The check precedes the request: no message of a rejected call is read, of streams neither. Internal RPCs
are not subject to it, since their callers are processes of the cluster (`ClusterAccess`); neither are health
checks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc
from typing_extensions import override

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.rpc_status import abort
from sharebroker_server.security import audit
from sharebroker_server.security.acl import Requester
from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.authorization_header import parse_basic
from sharebroker_server.security.authentication.oauthbearer import parse_bearer
from sharebroker_server.security.authentication.principal_mapping import PrincipalMapping
from sharebroker_server.security.authentication.sasl import failed
from sharebroker_server.security.interception import certificate_of, checked, ending, host_of, rejecting
from sharebroker_server.security.permissions import CLUSTER_ACTION, PERMISSIONS
from sharebroker_server.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from sharebroker_server.security.interception import Handler

_OPEN_SERVICES: Final = frozenset({"grpc.health.v1.Health"})
_HEADER: Final = "authorization"

TOKEN_GRACE: Final = 60.0
"""Seconds for which a stream continues after its access token expired."""


class _Identity(NamedTuple):
    """What identifies the caller: its user, else its certificate, with the principals of certificates.

    `expires_at` is the end of the access token in seconds since the epoch.
    """

    user: Principal | None = None
    certificates: PrincipalMapping | None = None
    expires_at: float | None = None


_UNKNOWN: Final = _Identity()
_identity: ContextVar[_Identity] = ContextVar("identity", default=_UNKNOWN)


class UserAccess(grpc.aio.ServerInterceptor):
    """Serves public RPCs to authenticated callers only.

    With `certificates` the listener accepts only callers with a verified client certificate, so that a call
    without `authorization` is authenticated as well; the rules decide which principal it has. Without
    `authenticator` the certificate decides always. A call without `authorization` is served as ANONYMOUS if
    the authenticator does not require authentication. Basic transmits the password and needs TLS. A stream
    that was opened with an access token ends `TOKEN_GRACE` seconds after the token.
    """

    def __init__(
        self, authenticator: Authenticator | None, certificates: PrincipalMapping | None = None
    ) -> None:
        self._authenticator = authenticator
        self._certificates = certificates

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        method = handler_call_details.method
        is_open = method.lstrip("/").partition("/")[0] in _OPEN_SERVICES
        if PERMISSIONS.get(method) is CLUSTER_ACTION or is_open:
            return await continuation(handler_call_details)
        try:
            identity = await self._authenticated(handler_call_details.invocation_metadata)
        except KafkaError as error:
            # Without a handler nothing is executed; gRPC returns UNIMPLEMENTED.
            return None if await continuation(handler_call_details) is None else _rejection(error)
        _identity.set(identity)
        handler = await continuation(handler_call_details)
        certificates, expires_at = identity.certificates, identity.expires_at
        if handler is not None and certificates is not None and not certificates.is_total:
            return checked(handler, _require_principal)
        if handler is not None and expires_at is not None and handler.stream_stream is not None:
            return ending(handler, expires_at + TOKEN_GRACE, partial(_reject, failed()))
        return handler

    async def _authenticated(self, metadata: Any) -> _Identity:
        """Returns who calls. Raises SASL_AUTHENTICATION_FAILED, THROTTLING_QUOTA_EXCEEDED."""
        header = _header(metadata)
        authenticator = self._authenticator
        if self._certificates is not None and (header is None or authenticator is None):
            return _Identity(certificates=self._certificates)
        if authenticator is None:
            raise failed()
        if header is None and not authenticator.required:
            return _UNKNOWN
        bearer = parse_bearer(header)
        token = None if bearer is None else await authenticator.verify_token(bearer)
        if token is not None:
            return _Identity(token.principal, expires_at=token.expires_at)
        basic = parse_basic(header) if authenticator.tls else None
        if basic is None or not await authenticator.passwords.verify(*basic):
            raise failed()
        return _Identity(Principal(basic.name))


def caller(context: Any) -> Principal:
    """Returns the principal of a call of a public RPC.

    It is the user, else the principal of the verified client certificate, else ANONYMOUS. Raises
    SASL_AUTHENTICATION_FAILED if no rule gives the certificate a principal.
    """
    user, certificates, _ = _identity.get()
    if user is not None:
        return user
    certificate = None if certificates is None else certificate_of(context)
    if certificates is None or certificate is None:
        return ANONYMOUS
    principal = certificates.principal(certificate)
    if principal is None:
        raise failed()
    return principal


def requester(context: Any) -> Requester:
    """Returns the caller of a public RPC, as the authorizer sees it."""
    return Requester(caller(context), host_of(context.peer()))


def audited(context: Any) -> None:
    """Sets the caller of this call as the origin of its lines in the audit log."""
    audit.serving(lambda: audit.RequestOrigin(requester(context), "grpc"))


def _header(metadata: Any) -> object:
    return next((value for key, value in metadata or () if key == _HEADER), None)


async def _require_principal(context: grpc.aio.ServicerContext[Any, Any]) -> None:
    try:
        caller(context)
    except KafkaError as error:
        await _reject(error, context)


def _rejection(error: KafkaError) -> Handler:
    return rejecting(partial(_reject, error))


async def _reject(error: KafkaError, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    header = _header(context.invocation_metadata())
    basic = parse_basic(header)
    mechanism, user = ("Basic", basic.name) if basic else ("Bearer" if parse_bearer(header) else "", "")
    audit.unauthenticated("grpc", host_of(context.peer()), mechanism, user)
    await abort(context, error)
