"""The port through which both listeners decide what a caller may do, and the errors of denied requests.

`Rechecks` ends open streams and waiting calls whose caller lost its permission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType, Requester, Resource

T = TypeVar("T")

Check = Callable[[], None]
"""Raises an AUTHORIZATION_FAILED error if a caller may no longer do what it does."""


class Authorizer(Protocol):
    """Decides what callers may do (Kafka: `Authorizer`).

    A decision holds while `version` is the same: callers may cache it.
    """

    @property
    def version(self) -> int:
        """Changes whenever a decision may change."""

    def allows(self, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        """Returns whether the requester may do `operation` to `resource`."""

    def allows_any(self, requester: Requester, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns whether the requester may do `operation` to some resource of the type.

        Kafka: `authorizeByResourceType`.
        """


class AllowAll:
    """The authorizer of a cluster without access control: every caller may do everything."""

    version: Final = 0

    def allows(self, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        """Returns True."""
        return True

    def allows_any(self, requester: Requester, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns True."""
        return True


ALLOW_ALL: Final = AllowAll()

_CODES: Final[Mapping[AclResourceType, ErrorCode]] = MappingProxyType(
    {
        AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def denied(kind: AclResourceType, metadata: Mapping[str, str] | None = None) -> KafkaError:
    """Returns the error of a request whose caller lacks a permission on a resource of the type."""
    return KafkaError(_CODES[kind], metadata=metadata)


def denial(requester: Requester, operation: AclOperation, resource: Resource) -> KafkaError:
    """Returns the resource type's AUTHORIZATION_FAILED error of an operation that is not allowed.

    The audit log records the denial. A filter that leaves items out needs no error.
    """
    audit.denied(requester, operation, resource)
    return denied(resource.type, {"resource_type": resource.type.name, "resource": resource.name})


class Rechecks:
    """The checks of open streams and waiting calls; `repeat` them when permissions may have changed."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[Check, Callable[[KafkaError], None]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def during(self, check: Check, fail: Callable[[KafkaError], None]) -> Iterator[None]:
        """Registers a stream: `repeat` calls `fail` with the error that `check` raises."""
        key = object()
        self._open[key] = check, fail
        try:
            yield
        finally:
            del self._open[key]

    async def run(
        self,
        check: Check,
        work: Coroutine[Any, Any, T],
        denied: Callable[[KafkaError], T] | None = None,
    ) -> T:
        """Returns the result of `work`, or cancels it if `check` fails first.

        The error of the check is then raised, or `denied` returns the result. The work runs in the present
        task, as within `asyncio.timeout`: a task for each fetch is expensive.
        """
        task = asyncio.current_task()
        assert task is not None
        cancelling, errors = task.cancelling(), list[KafkaError]()

        def fail(error: KafkaError) -> None:
            if not errors:
                task.cancel()
            errors.append(error)

        key = object()
        self._open[key] = check, fail
        try:
            return await work
        except asyncio.CancelledError:
            if not errors or task.uncancel() > cancelling:
                raise
            if denied is None:
                raise errors[0] from None
            return denied(errors[0])
        finally:
            del self._open[key]

    def repeat(self) -> None:
        """Repeats every check and ends what is no longer permitted."""
        for check, fail in list(self._open.values()):
            try:
                check()
            except KafkaError as error:
                fail(error)
