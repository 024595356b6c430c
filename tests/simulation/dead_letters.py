"""The dead letter topic of a run: created before or during the faults, sometimes not writable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.errors import ErrorCode
from tests.simulation.clients import Client
from tests.simulation.plan import QUEUE, Queue

LONGEST_PAUSE: Final = 3.0
"""The longest pause between two attempts to send letters, in seconds."""

_MOVER: Final = "sharebroker_server.share_partition_leader.dead_letters."
_FEW_LETTERS: Final = patch(_MOVER + "mover.MAX_LETTERS", 2)
"""Records that fail together need several requests."""

_SHORT_PAUSES: Final = patch(_MOVER + "target._LONGEST_PAUSE", LONGEST_PAUSE)
_SHORT_APPENDS: Final = patch(_MOVER + "sending.APPEND_TIMEOUT", 3.0)

_AGAIN: Final = 0.2
_ENABLED: Final = "errors.deadletterqueue.group.enable"


@contextmanager
def short_letters() -> Iterator[None]:
    """Shortens the waits and the requests of the mover, like leases and locks."""
    with _FEW_LETTERS, _SHORT_PAUSES, _SHORT_APPENDS:
        yield


class QueueKeeper:
    """Creates the topic, and makes it not writable for a time."""

    def __init__(self, client: Client, queue: Queue) -> None:
        self._client = client
        self._queue = queue

    async def begin(self) -> None:
        """Creates the topic, unless that is to be done during the faults."""
        if not self._queue.created:
            await self._create()

    async def run(self) -> None:
        """Makes the changes at their times; each is repeated until it succeeds."""
        queue = self._queue
        if queue.created:
            await asyncio.sleep(queue.created)
            await self._create()
        if queue.closed_for:
            await asyncio.sleep(queue.closed)
            await self._enable("false")
            await asyncio.sleep(queue.closed_for)
            await self._enable("true")

    async def end(self, slowest: float) -> None:
        """Makes the topic writable after the faults, once no late request arrives any more."""
        if self._queue.closed_for:
            await asyncio.sleep(slowest)
            await self._enable("true")

    async def _create(self) -> None:
        topic = cluster.CreateTopicsRequest.Topic(
            name=QUEUE, num_partitions=self._queue.partitions, configs={_ENABLED: "true"}
        )
        request = cluster.CreateTopicsRequest(topics=[topic])
        while True:
            [created] = (await self._client.admin("CreateTopics", request)).topics
            if created.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            await asyncio.sleep(_AGAIN)
        self._client.history.topics[created.topic_id] = QUEUE

    async def _enable(self, value: str) -> None:
        self._client.history.log(f"the dead letter topic is enabled: {value}")
        request = cluster.IncrementalAlterConfigsRequest()
        resource = request.resources.add(resource_type=cluster.RESOURCE_TYPE_TOPIC, resource_name=QUEUE)
        resource.configs.add(name=_ENABLED, value=value)
        while True:
            [changed] = (await self._client.admin("IncrementalAlterConfigs", request)).responses
            if not changed.error_code:
                return
            await asyncio.sleep(_AGAIN)
