"""An administrator who retries failed records of a group, each in one request that is repeated."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from tests.simulation.clients import Client
from tests.testkit.checker.events import Retried, Share

PACE: Final = 8.0
_TRIES: Final = 20
"""Attempts of a request; without a confirmation the record may have been copied or not."""

_TIMEOUT: Final = 1.0
_BACKOFF: Final = 0.2

_AGAIN: Final = 0.5
"""The share of confirmed requests that are sent once more."""


class Retrier:
    """Retries failed records, PACE times a second; no record twice."""

    def __init__(self, client: Client, name: str, group: str, topic: str) -> None:
        self._client = client
        self._name = name
        self._group = group
        self._topic = topic
        self._retried: set[tuple[int, int]] = set()

    async def run(self, until: float) -> None:
        """Retries until a time, and repeats every request until it is confirmed."""
        client = self._client
        while (at := client.time() + client.random.expovariate(PACE)) < until:
            await asyncio.sleep(at - client.time())
            failed = sorted(await self._failed() - self._retried)
            if failed:
                await self._retry(*client.random.choice(failed))

    async def _failed(self) -> set[tuple[int, int]]:
        """Returns partition and offset of the failed records."""
        request = pb.ListFailedRecordsRequest(group_id=self._group, topic=self._topic, page_size=1000)
        page: Any = await self._client.call(AdminServiceStub, "ListFailedRecords", request)
        return {
            (entry.partition, offset)
            for entry in (page.entries if page is not None else ())
            for offset in range(entry.first_offset, entry.last_offset + 1)
        }

    async def _retry(self, partition: int, offset: int) -> None:
        client = self._client
        self._retried.add((partition, offset))
        request = pb.RetryFailedRecordsRequest(
            group_id=self._group, topic=self._topic, request_id=f"{self._name}-{len(self._retried)}"
        )
        request.partitions.add(partition=partition, offsets=[offset])
        for _ in range(_TRIES):
            copy = await self._send(request)
            if copy >= 0:
                share = Share(self._group, self._topic, partition)
                client.history.add(Retried(client.time(), share, offset, copy))
                if client.random.random() < _AGAIN:
                    await self._send(request)
                return
            await asyncio.sleep(_BACKOFF)

    async def _send(self, request: pb.RetryFailedRecordsRequest) -> int:
        """Returns the offset of the copy; -1 without one."""
        response: Any = await self._client.call(
            AdminServiceStub, "RetryFailedRecords", request, timeout=_TIMEOUT
        )
        return -1 if response is None else int(response.results[0].copy_offset)
