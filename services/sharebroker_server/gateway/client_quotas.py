"""The use of quotas by the clients of a process, of both listeners (Kafka: `QuotaManagers`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, NamedTuple

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.machine import MAX_PARTITIONS
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.quotas import QuotaKey
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.core.quotas import Parts, QuotaUse

_CONTROLLER: Final = frozenset({QuotaKey.CONTROLLER_MUTATION_RATE})


_HELD_SHARE: Final = 4
"""The part of `queued.max.request.bytes` that unary calls hold while they wait: a fourth."""


class QuotaClient(NamedTuple):
    """Whom a request is charged to; the address of a connection takes the place of a user."""

    user: str
    client_id: str


class ClientQuotas:
    """Charges clients and counts their waits. `now` returns monotonic seconds, `sleep` waits for seconds."""

    def __init__(
        self,
        catalog: MetadataCache,
        config: BrokerConfig,
        now: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self.throttled = dict.fromkeys(QuotaKey, 0.0)
        """Seconds that requests had to wait, by the quota that was exceeded most."""
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
        self._held = 0
        self._max_held = config.queued_max_request_bytes // _HELD_SHARE

    @property
    def active(self) -> bool:
        """Whether there are quotas."""
        return self._catalog.catalog.quotas.size > 0

    def charge(self, key: QuotaKey, client: QuotaClient, amount: float) -> float:
        """Takes `amount` from a quota; returns the seconds until the debt of the client is paid."""
        self._follow()
        use = self._uses[key]
        return use.charge(*client, amount, self._now()) if use else 0.0

    async def admit(
        self,
        key: QuotaKey,
        client: QuotaClient,
        amount: int,
        deadline: Deadline | None = None,
        held: int = 0,
    ) -> None:
        """Charges `amount`, then waits until what the client used before is paid.

        Requests that wait at the same time so take turns. A unary call has a deadline, and counts with `held`
        bytes as in progress while it waits. Raises THROTTLING_QUOTA_EXCEEDED, without a charge, if the wait
        would exceed the deadline, or if waiting calls hold a fourth of `queued.max.request.bytes`.
        """
        seconds = self.charge(key, client, 0)
        if not seconds:
            self.charge(key, client, amount)
            return
        full = held > 0 and self._held >= self._max_held
        if full or (deadline is not None and seconds > deadline.remaining()):
            text = f"The quota {key.value} is exceeded."
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text, retry_after=seconds)
        self.charge(key, client, amount)
        self._held += held
        try:
            await self.wait(key, seconds)
        finally:
            self._held -= held

    def mutate(self, client: QuotaClient, partitions: int, *, strict: bool) -> None:
        """Charges partitions that are created or deleted, MAX_PARTITIONS at most.

        A request that names more creates none, and its debt would last for years.
        With `strict` it raises THROTTLING_QUOTA_EXCEEDED instead if the quota is exceeded already (KIP-599).
        """
        if not self.active:
            return
        key = QuotaKey.CONTROLLER_MUTATION_RATE
        seconds = self.charge(key, client, 0)
        if strict and seconds:
            text = "The throttling quota has been exceeded."
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text, retry_after=seconds)
        self.charge(key, client, min(partitions, MAX_PARTITIONS))

    def refund_mutation(self, client: QuotaClient, charged: int, made: int) -> None:
        """Returns what `mutate` charged for partitions of which only `made` were created or deleted."""
        excess = min(charged, MAX_PARTITIONS) - min(made, MAX_PARTITIONS)
        if excess:
            self.charge(QuotaKey.CONTROLLER_MUTATION_RATE, client, -excess)

    async def wait(self, key: QuotaKey, seconds: float) -> None:
        """Waits because of a quota, and counts the time."""
        self.throttled[key] += seconds
        await self._sleep(seconds)

    def _follow(self) -> None:
        """Reads the quotas of the catalog if they changed; an address takes the place of a user."""
        current = self._catalog.catalog.quotas
        if self._seen[0] is current and self._seen[1] == current.version:
            return
        self._seen = current, current.version
        quotas: dict[QuotaKey, dict[Parts, float]] = {key: {} for key in QuotaKey}
        for entity, values in current.items():
            parts: Parts = (entity.user, entity.client_id) if entity.ip is None else (entity.ip, None)
            for key, value in values.items():
                quotas[key][parts] = value
        for key, use in self._uses.items():
            use.replace(quotas[key])
