"""Throttles Kafka clients that exceed their quotas (KIP-219).

A response states how long its client must wait, and the connection serves no further request for that time.
Each process applies the quotas to its own requests, as each broker of Kafka does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from time import monotonic, perf_counter
from types import coroutine
from typing import Any, Final, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.quotas import QuotaKey
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.core.quotas import Parts, QuotaUse
from sharebroker_server.gateway.kafka.call import Call, ClientConnection
from sharebroker_server.kafka_wire.schema import Message

T = TypeVar("T")

_PRODUCE: Final = 0
_FETCHES: Final = frozenset({1, 78})
_MUTATIONS: Final = frozenset({19, 20, 37})
_CONTROLLER: Final = frozenset({QuotaKey.CONTROLLER_MUTATION_RATE})
_PERCENT: Final = 100.0


class ClientThrottle:
    """The use of quotas by the Kafka clients of this process. `now` returns monotonic seconds."""

    def __init__(
        self, catalog: MetadataCache, config: BrokerConfig, now: Callable[[], float] = monotonic
    ) -> None:
        self._catalog = catalog
        self._now = now
        bytes_burst = float(config.quota_window_num * config.quota_window_size_seconds)
        mutation_burst = float(
            config.controller_quota_window_num * config.controller_quota_window_size_seconds
        )
        self._uses = {
            key: QuotaUse(mutation_burst if key in _CONTROLLER else bytes_burst) for key in QuotaKey
        }
        self._seen: tuple[object, int] = (None, 0)
        self._active = False

    @property
    def active(self) -> bool:
        """Whether there are quotas."""
        quotas = self._catalog.catalog.quotas
        if self._seen[0] is not quotas or self._seen[1] != quotas.version:
            self._seen = quotas, quotas.version
            self._follow()
        return self._active

    def charge(
        self, call: Call[Any], api_key: int, size: int, response: Message | None, spent: float
    ) -> float:
        """Charges a request of `size` bytes and its response; returns the seconds that the client must wait.

        `spent` are the seconds of the event loop that the request used.
        """
        waits = [self._charge(QuotaKey.REQUEST_PERCENTAGE, call, spent * _PERCENT)]
        if api_key == _PRODUCE:
            waits.append(self._charge(QuotaKey.PRODUCER_BYTE_RATE, call, size))
        elif api_key in _FETCHES and response is not None:
            waits.append(self._charge(QuotaKey.CONSUMER_BYTE_RATE, call, record_bytes(response)))
        elif api_key in _MUTATIONS:
            waits.append(self._charge(QuotaKey.CONTROLLER_MUTATION_RATE, call, 0))
        return max(waits)

    def timed(self, work: Coroutine[Any, Any, T], spent: list[float]) -> Awaitable[T]:
        """Returns `work` so that the seconds of each of its steps are added to `spent`.

        The time in which it waits, and other tasks run, does not count.
        """
        return _steps(work, spent)

    def mutate(self, call: Call[Any], partitions: int, *, strict: bool) -> None:
        """Charges partitions that are created or deleted.

        With `strict` it raises THROTTLING_QUOTA_EXCEEDED instead if the quota is exceeded already (KIP-599).
        """
        if not self.active:
            return
        key = QuotaKey.CONTROLLER_MUTATION_RATE
        if strict and self._charge(key, call, 0) > 0:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._charge(key, call, partitions)

    def connected(self, client: ClientConnection) -> bool:
        """Returns whether the address of a new connection may open one more."""
        if not self.active:
            return True
        address = client.host.removeprefix("/")
        use = self._uses[QuotaKey.CONNECTION_CREATION_RATE]
        return use.charge(address, "", 1, self._now()) == 0

    def _charge(self, key: QuotaKey, call: Call[Any], amount: float) -> float:
        use = self._uses[key]
        return use.charge(call.client.principal.name, call.client_id, amount, self._now()) if use else 0.0

    def _follow(self) -> None:
        """Replaces the quotas by those of the catalog; an address takes the place of a user."""
        quotas: dict[QuotaKey, dict[Parts, float]] = {key: {} for key in QuotaKey}
        for entity, values in self._catalog.catalog.quotas.items():
            parts: Parts = (entity.user, entity.client_id) if entity.ip is None else (entity.ip, None)
            for key, value in values.items():
                quotas[key][parts] = value
        for key, use in self._uses.items():
            use.replace(quotas[key])
        self._active = any(quotas.values())


@coroutine
def _steps(work: Coroutine[Any, Any, T], spent: list[float]) -> Generator[Any, Any, T]:
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        begun = perf_counter()
        try:
            waits_for = step()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            spent.append(perf_counter() - begun)
        try:
            yield waits_for
        except BaseException as error:  # a cancellation, or GeneratorExit
            step = partial(work.throw, error)
        else:
            step = partial(work.send, None)


def record_bytes(response: Any) -> int:
    """Returns the bytes of records in the response to a fetch."""
    partitions: Iterable[Any] = (part for topic in response.responses for part in topic.partitions)
    return sum(len(part.records) for part in partitions if part.records)
