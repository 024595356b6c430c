"""Authenticates the callers of public RPCs: `authorization: Basic`, or a verified client certificate.

The check precedes the request: no message of a rejected call is read, of streams neither. Internal RPCs
are not subject to it, since their callers are processes of the cluster (`ClusterAccess`); neither are health
checks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import grpc
import structlog
from typing_extensions import override

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.rpc_status import abort
from sharebroker_server.security.acl import Requester
from sharebroker_server.security.authenticator import Authenticator
from sharebroker_server.security.interception import certificate_subjects, rejecting
from sharebroker_server.security.permissions import PERMISSIONS, Permission
from sharebroker_server.security.principal import ANONYMOUS, Principal
from sharebroker_server.security.sasl import LONGEST_TOKEN, failed

if TYPE_CHECKING:
    from sharebroker_server.security.interception import Handler

_OPEN_SERVICES: Final = frozenset({"grpc.health.v1.Health"})
_HEADER: Final = "authorization"
_SCHEME: Final = "basic "

_log = structlog.get_logger()
_principal: ContextVar[Principal | None] = ContextVar("principal", default=None)


class BasicCredentials(NamedTuple):
    """A name and a password. The text contains no password."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"BasicCredentials(name={self.name!r})"


class UserAccess(grpc.aio.ServerInterceptor):
    """Serves public RPCs to authenticated callers only.

    With `certificates` the listener accepts only callers with a verified client certificate, so that a call
    without `authorization` is authenticated as well. Basic transmits the password and needs TLS.
    """

    def __init__(self, authenticator: Authenticator, *, certificates: bool = False) -> None:
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
        if PERMISSIONS.get(method) is not Permission.CLUSTER_ACTION and not is_open:
            try:
                _principal.set(await self._authenticated(handler_call_details.invocation_metadata))
            except KafkaError as error:
                return _rejection(error)
        return await continuation(handler_call_details)

    async def _authenticated(self, metadata: Any) -> Principal | None:
        """Returns the user, or None if the certificate decides. Raises SASL_AUTHENTICATION_FAILED."""
        header = next((value for key, value in metadata or () if key == _HEADER), None)
        if header is None and self._certificates:
            return None
        basic = parse_basic(header) if self._authenticator.tls else None
        if basic is None or not await self._authenticator.passwords.verify(*basic):
            raise failed()
        return Principal(basic.name)


def parse_basic(header: object) -> BasicCredentials | None:
    """Returns the credentials of a header (RFC 7617); None if there are none."""
    if not isinstance(header, str) or len(header) > LONGEST_TOKEN or header[:6].lower() != _SCHEME:
        return None
    try:
        text = base64.b64decode(header[6:].strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    name, colon, password = text.partition(":")
    return BasicCredentials(name, password) if name and colon and password else None


def caller(context: Any) -> Principal:
    """Returns the principal of a call of a public RPC.

    It is the user, else the subject of the verified client certificate, else ANONYMOUS.
    """
    user = _principal.get()
    if user is not None:
        return user
    subjects = certificate_subjects(context)
    return Principal(subjects[0]) if subjects else ANONYMOUS


def requester(context: Any) -> Requester:
    """Returns the caller of a public RPC, as the authorizer sees it."""
    return Requester(caller(context), host_of(context.peer()))


def host_of(peer: str) -> str:
    """Returns the address of a gRPC peer without scheme and port: `ipv4:10.0.0.7:5000` is `10.0.0.7`."""
    if not peer.startswith(("ipv4:", "ipv6:")):
        return peer
    address = unquote(peer.partition(":")[2])
    return address.rpartition(":")[0].strip("[]")


def _rejection(error: KafkaError) -> Handler:
    async def reject(context: grpc.aio.ServicerContext[Any, Any]) -> None:
        _log.debug("grpc call rejected", peer=context.peer(), error=error.code.name)
        await abort(context, error)

    return rejecting(reject)
