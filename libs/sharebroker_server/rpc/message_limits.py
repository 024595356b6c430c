"""Limits of the messages of each method: bytes, and fields that are decoded.

Clients call the services of the gateway, of gRPC and of KEDA; all others serve processes of the cluster.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_MIB: Final = 1 << 20

MAX_MESSAGE: Final = 16 * _MIB
"""Largest request of any method in bytes. gRPC has one limit per listener and enforces it before it reads."""

MAX_READ: Final = MAX_MESSAGE + _MIB
"""Maximum bytes of a request that is read and rejected with details; gRPC rejects larger ones without."""

MAX_RESPONSE: Final = 64 * _MIB
"""Largest response of any method in bytes."""

UNCOUNTED: Final = 64 * 1024
"""Requests of up to so many bytes are decoded without a count of their fields: that takes a millisecond."""

_MAX_FIELDS: Final = 50_000
_MAX_FIELDS_WITH_RECORDS: Final = 250_000


class MessageLimits(NamedTuple):
    """The limits of one method; `max_fields` is None for a method that only processes of the cluster call."""

    max_bytes: int
    max_fields: int | None

    @property
    def of_clients(self) -> bool:
        """Returns whether clients call the method."""
        return self.max_fields is not None


_WITH_RECORDS: Final = MessageLimits(MAX_MESSAGE, _MAX_FIELDS_WITH_RECORDS)
_OTHERS: Final = MessageLimits(4 * _MIB, _MAX_FIELDS)
_MEMBERSHIP: Final = MessageLimits(_MIB, _MAX_FIELDS)
_INTERNAL: Final = MessageLimits(MAX_MESSAGE, None)

_PUBLIC_PACKAGES: Final = ("/sharebroker.gateway.", "/externalscaler.", "/grpc.")
_BY_NAME: Final = {
    "Publish": _WITH_RECORDS,
    "Produce": _WITH_RECORDS,
    "ProduceStream": _WITH_RECORDS,
    "Stage": _WITH_RECORDS,
    "Commit": _WITH_RECORDS,
    "ShareGroupHeartbeat": _MEMBERSHIP,
    "OpenSession": _MEMBERSHIP,
    "Renew": _MEMBERSHIP,
}


def message_limits(method: str) -> MessageLimits:
    """Returns the limits of a method, given as /package.Service/Method."""
    if not method.startswith(_PUBLIC_PACKAGES):
        return _INTERNAL
    if not method.startswith("/sharebroker."):
        return _MEMBERSHIP
    return _BY_NAME.get(method.rpartition("/")[2], _OTHERS)
