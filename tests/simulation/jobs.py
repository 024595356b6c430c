"""A member whose work takes longer than a fail-over: its durable locks must survive."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from tests.simulation.clients import ACKNOWLEDGE_TYPES, WAIT_MS, Consumer
from tests.simulation.process import LOCK
from tests.testkit.checker.events import Applied, Delivered, Held, Share, Verdict

JOB_LOCK: Final = 15.0
"""Seconds: longer than a fail-over and the calls after it."""

DURABLE_LOCK: Final = 5.0
"""The shortest durable lock of a run, in seconds."""

_LONGEST_JOB: Final = 5.0
_TRIES: Final = 3
_PAUSE: Final = 0.2


class LongWorker(Consumer):
    """Acquires single records with durable locks, works for seconds, and accepts them."""

    @override
    async def run(self) -> None:
        """Works until it is cancelled, or consumes like other members once it is steady."""
        client = self._client
        while not self.steady:
            request = share.AcquireRequest(
                group_id=self.group,
                topics=[self._topic],
                max_records=1,
                max_wait_ms=WAIT_MS,
                member_id=self.member,
                lock_ms=round(JOB_LOCK * 1000),
            )
            response = await client.call(ShareServiceStub, "Acquire", request)
            if response is None:
                await asyncio.sleep(_PAUSE)
            for record in response.records if response is not None else ():
                client.history.add(self._delivered(record))
                await self._work(record)
        await super().run()

    async def _work(self, record: share.ShareRecord) -> None:
        """Renews the lock, works, and accepts the record."""
        client = self._client
        began = client.time()
        if await self._try(record, Verdict.RENEW):
            where, until = Share(self.group, record.topic, record.partition), began + JOB_LOCK - LOCK
            client.history.add(Held(client.time(), where, record.offset, record.lock_token, until))
        await asyncio.sleep(client.random.uniform(0.0, _LONGEST_JOB))
        await self._try(record, Verdict.ACCEPT)

    async def _try(self, record: share.ShareRecord, verdict: Verdict) -> bool:
        """Returns whether the acknowledgement was applied; repeats calls without a response."""
        for _ in range(_TRIES):
            applied = await self._acknowledged(record, verdict)
            if applied is not None:
                return applied
            await asyncio.sleep(_PAUSE)
        return False

    async def _acknowledged(self, record: share.ShareRecord, verdict: Verdict) -> bool | None:
        client, ask = self._client, self._ask(record, verdict)
        request = share.AcknowledgeRequest(group_id=self.group, member_id=self.member)
        request.acknowledgements.add(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            lock_token=record.lock_token,
            type=ACKNOWLEDGE_TYPES[verdict],
            lock_ms=round(JOB_LOCK * 1000) if verdict is Verdict.RENEW else 0,
        )
        response: Any = await client.call(ShareServiceStub, "Acknowledge", request)
        if response is None:
            return None
        [result] = response.results
        if not result.error_code:
            client.history.add(Applied(client.time(), ask))
        return not result.error_code

    @override
    def _delivered(self, record: share.ShareRecord, *, streamed: bool = False) -> Delivered:
        """Reports the deadline that a lock of the group's length would have."""
        seen = super()._delivered(record, streamed=streamed)
        return seen if self.steady else replace(seen, deadline=seen.deadline - JOB_LOCK + LOCK)
