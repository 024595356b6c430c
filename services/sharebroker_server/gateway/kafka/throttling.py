"""Throttles Kafka clients that exceed their quotas (KIP-219).

A response states how long its client must wait, and the connection serves no further request for that time.
Each process applies the quotas to its own requests, as each broker of Kafka does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from sharebroker_server.aio import timed
from sharebroker_server.catalog.quotas import QuotaKey
from sharebroker_server.gateway.client_quotas import ClientQuotas, QuotaClient
from sharebroker_server.gateway.kafka.call import Call, ClientConnection
from sharebroker_server.kafka_wire.schema import Message

T = TypeVar("T")

_PRODUCE: Final = 0
_FETCHES: Final = frozenset({1, 78})
_MUTATIONS: Final = frozenset({19, 20, 37})
_PERCENT: Final = 100.0


class ClientThrottle:
    """The use of quotas by the Kafka clients of this process."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas

    def charge(
        self, call: Call[Any], api_key: int, size: int, response: Message | None, spent: float
    ) -> float:
        """Charges a request of `size` bytes and its response; returns the seconds that the client must wait.

        `spent` are the seconds of the event loop that the request used.
        """
        amounts = {QuotaKey.REQUEST_PERCENTAGE: spent * _PERCENT}
        if api_key == _PRODUCE:
            amounts[QuotaKey.PRODUCER_BYTE_RATE] = size
        elif api_key in _FETCHES and response is not None:
            amounts[QuotaKey.CONSUMER_BYTE_RATE] = record_bytes(response)
        elif api_key in _MUTATIONS:
            amounts[QuotaKey.CONTROLLER_MUTATION_RATE] = 0
        waits = {key: self._charge(key, call, amount) for key, amount in amounts.items()}
        longest = max(waits, key=waits.__getitem__)
        self._quotas.throttled[longest] += waits[longest]
        return waits[longest]

    def timed(self, work: Coroutine[Any, Any, T], spent: list[float]) -> Awaitable[T]:
        """Returns `work` so that the seconds of each of its steps are added to `spent`.

        The time in which it waits, and other tasks run, does not count.
        """
        return timed(work, spent)

    def mutate(self, call: Call[Any], partitions: int, *, strict: bool) -> None:
        """Charges partitions that are created or deleted.

        With `strict` it raises THROTTLING_QUOTA_EXCEEDED instead if the quota is exceeded already (KIP-599).
        """
        self._quotas.mutate(_client(call), partitions, strict=strict)

    def connected(self, client: ClientConnection) -> bool:
        """Returns whether the address of a new connection may open one more."""
        if not self._quotas.active:
            return True
        address = QuotaClient(client.host.removeprefix("/"), "")
        return self._quotas.charge(QuotaKey.CONNECTION_CREATION_RATE, address, 1) == 0

    def _charge(self, key: QuotaKey, call: Call[Any], amount: float) -> float:
        return self._quotas.charge(key, _client(call), amount)


def _client(call: Call[Any]) -> QuotaClient:
    return QuotaClient(call.client.principal.name, call.client_id)


def record_bytes(response: Any) -> int:
    """Returns the bytes of records in the response to a fetch."""
    partitions: Iterable[Any] = (part for topic in response.responses for part in topic.partitions)
    return sum(len(part.records) for part in partitions if part.records)
