"""The use of quotas by the clients of a process, of both listeners (Kafka: `QuotaManagers`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, NamedTuple

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.quotas import QuotaKey
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.core.quotas import Parts, QuotaUse

_CONTROLLER: Final = frozenset({QuotaKey.CONTROLLER_MUTATION_RATE})


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
        self, key: QuotaKey, client: QuotaClient, amount: int, deadline: Deadline | None = None
    ) -> None:
        """Charges `amount`, then waits until what the client used before is paid.

        Requests that wait at the same time so take turns. Raises THROTTLING_QUOTA_EXCEEDED, without a charge,
        if the wait would exceed the deadline.
        """
        seconds = self.charge(key, client, 0)
        if deadline is not None and seconds > deadline.remaining():
            text = f"The quota {key.value} is exceeded."
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text, retry_after=seconds)
        self.charge(key, client, amount)
        if seconds:
            await self.wait(key, seconds)

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
