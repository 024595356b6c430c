"""The task that writes to a stream while another task reads from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import grpc

from sharebroker.client_errors import ConnectionLostError
from sharebroker_protocol.cancellation import end

_log = logging.getLogger(__name__)


class StreamWriter:
    """Runs `work`, which writes to `call`, and cancels the call if `work` fails, so that the reader ends."""

    def __init__(self, call: grpc.aio.Call, work: Coroutine[Any, Any, None]) -> None:
        self._call = call
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._call.cancel()

    def failure(self) -> ConnectionLostError:
        """Returns the error that the reader raises after the call was cancelled.

        Raises CancelledError if the cancellation did not come from a failed writer.
        """
        if not self._task.done() or self._task.cancelled() or self._task.exception() is None:
            raise asyncio.CancelledError
        _log.error("stream writer failed", exc_info=self._task.exception())
        return ConnectionLostError("the client failed to send")

    async def stop(self) -> None:
        """Cancels the call and the task, and ignores their errors."""
        self._call.cancel()
        await end([self._task])
