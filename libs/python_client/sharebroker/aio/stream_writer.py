"""The task that writes to a stream while another reads from it: neither outlives the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import grpc

from sharebroker.client_errors import ConnectionLostError
from sharebroker_protocol.cancellation import end

log = logging.getLogger("sharebroker")


class StreamWriter:
    """Runs `work`, which writes to `call`. When it fails the call is cancelled: nobody waits in vain."""

    def __init__(self, call: grpc.aio.Call, work: Coroutine[Any, Any, None]) -> None:
        self._call = call
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._call.cancel()

    def failure(self) -> ConnectionLostError:
        """What the reader, cancelled with the call, raises; CancelledError if somebody else cancelled it."""
        if not self._task.done() or self._task.cancelled() or self._task.exception() is None:
            raise asyncio.CancelledError
        log.error("nothing more can be sent on a stream", exc_info=self._task.exception())
        return ConnectionLostError("the client failed to send")

    async def stop(self) -> None:
        """End the call and the task; what ended it first is no news any more."""
        self._call.cancel()
        await end([self._task])
