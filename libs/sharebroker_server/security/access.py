"""Rejects calls of internal RPCs whose caller is not a process of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import abort
from sharebroker_server.security import audit
from sharebroker_server.security.cluster_token import TokenVerdict
from sharebroker_server.security.credentials import TOKEN_KEY, ClusterCredentials
from sharebroker_server.security.interception import certificate_subjects, checked, host_of, rejecting
from sharebroker_server.security.permissions import required
from sharebroker_server.telemetry.metrics import Family, counter

if TYPE_CHECKING:
    from sharebroker_server.security.interception import Handler


class ClusterAccess(grpc.aio.ServerInterceptor):
    """Serves internal RPCs to processes of the cluster only; there is no setting that disables the check.

    A caller is such a process if its call carries a valid token, or if the subject of its client certificate
    is one of `principals`. The check precedes the request: no message of a denied call is read, or, if the
    certificate decides, deserialized.
    """

    def __init__(self, credentials: ClusterCredentials, principals: Iterable[str] = ()) -> None:
        self._credentials = credentials
        self._principals = frozenset(principals)
        self._denied: Counter[str] = Counter()

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        method = handler_call_details.method
        handler = await continuation(handler_call_details)
        # Without a handler nothing is executed; gRPC returns UNIMPLEMENTED.
        if handler is None or not required(method).internal:
            return handler
        verdict = self._credentials.verify(_token(handler_call_details.invocation_metadata))
        if verdict is TokenVerdict.VALID:
            return handler
        if not self._principals:
            return self._denial(method, verdict)
        return checked(handler, partial(self._require_principal, method, verdict))

    def families(self) -> Iterable[Family]:
        """Returns the metric families."""
        yield counter(
            "sharebroker_rpc_denied_total",
            "Rejected calls of internal RPCs, whose caller did not prove that it belongs to the cluster.",
            ((("method", method), count) for method, count in sorted(self._denied.items())),
        )

    def _denial(self, method: str, verdict: TokenVerdict) -> Handler:
        return rejecting(lambda context: self._abort(method, verdict, context))

    async def _require_principal(
        self, method: str, verdict: TokenVerdict, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        if not self._principals.intersection(certificate_subjects(context)):
            await self._abort(method, verdict, context)

    async def _abort(
        self, method: str, verdict: TokenVerdict, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        short = method.rpartition(".")[2]
        self._denied[short] += 1
        audit.internal_call_denied(short, context.peer(), host_of(context.peer()), verdict.value)
        await abort(context, denied(short))


def denied(method: str) -> KafkaError:
    """Returns the error of a call whose caller is not a process of the cluster, without the reason."""
    return KafkaError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "Only processes of the cluster may call this method.",
        metadata={"method": method},
    )


def _token(metadata: Any) -> str | None:
    for key, value in metadata or ():
        if key == TOKEN_KEY:
            return value if isinstance(value, str) else None
    return None
