"""An administrator who redrives the dead letters of a group again and again: each is redriven once."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.gateway.v1.dead_letters_pb2_grpc import DeadLetterServiceStub
from tests.simulation.clients import Client
from tests.simulation.plan import QUEUE
from tests.testkit.checker.events import Retried, Share

PACE: Final = 2.0
"""Passes through the dead letter topic, a second."""

_TIMEOUT: Final = 2.0
_LETTERS: Final = (1, 3, 100)
"""Letters of a call; one is chosen."""


class Redriver:
    """Redrives all letters of a group, also those that earlier passes redrove."""

    def __init__(self, client: Client, group: str, topic: str) -> None:
        self._client = client
        self._group = group
        self._topic = topic

    async def run(self, until: float) -> None:
        """Makes passes until a time. A failed call ends a pass; the next one repeats it."""
        client = self._client
        while (at := client.time() + client.random.expovariate(PACE)) < until:
            await asyncio.sleep(at - client.time())
            token: str | None = ""
            while token is not None:
                token = await self._redrive(token)

    async def _redrive(self, token: str) -> str | None:
        """Redrives the letters of a page; returns the token of the next one, None without one."""
        client = self._client
        request = pb.RedriveDeadLettersRequest(
            topic=QUEUE, max_letters=client.random.choice(_LETTERS), page_token=token
        )
        request.filter.group_id = self._group
        page: Any = await client.call(DeadLetterServiceStub, "RedriveDeadLetters", request, timeout=_TIMEOUT)
        for result in () if page is None else page.results:
            if not result.error_code:
                share = Share(self._group, self._topic, result.letter.source_partition)
                redriven = Retried(client.time(), share, result.letter.source_offset, result.copy_offset)
                client.history.add(redriven)
        return (page.next_page_token or None) if page is not None else None
