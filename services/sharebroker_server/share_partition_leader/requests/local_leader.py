"""The calls of a gateway in the same process: plain values, no messages."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

import structlog
from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
    AcquireCall,
    AcquireResult,
    AppendCall,
    AppendResult,
    DeliverOpen,
    ReconcileCall,
    ReconcileResult,
)
from sharebroker_server.leader_calls.watches import BaseWatch
from sharebroker_server.share_partition_leader.config import DEFAULT_BATCH_SIZE
from sharebroker_server.share_partition_leader.core.events import AcquireRequest
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.share_partition_leader.log.append import TransactionalAppends, append
from sharebroker_server.share_partition_leader.requests.deliver_stream import DeliverySession
from sharebroker_server.share_partition_leader.requests.reconcile import reconcile
from sharebroker_server.share_partition_leader.requests.stream_messages import RENEW
from sharebroker_server.share_partition_leader.share_partition.reading import (
    Fetched,
    NoStateError,
    NotFetched,
)
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
    member_holder,
)


class LocalLeader:
    """`LeaderCalls` on the partitions that this process leads.

    The methods return the coroutines of the functions that do the work, so that a call adds no stack frame.
    """

    def __init__(self, partitions: Leadership, appends: TransactionalAppends) -> None:
        self._partitions = partitions
        self._appends = appends

    def acquire(self, call: AcquireCall) -> Coroutine[Any, Any, list[AcquireResult]]:
        """Runs a fetch."""
        return Fetch(call, self._partitions).run()

    def acknowledge(self, call: AcknowledgeCall, timeout: float) -> Coroutine[Any, Any, list[AckResult]]:
        """Applies acknowledgements."""
        return acknowledge(self._partitions, call, timeout)

    def reconcile(self, call: ReconcileCall, timeout: float) -> Coroutine[Any, Any, list[ReconcileResult]]:
        """Reconciles the records of planned batches."""
        return reconcile(self._partitions, call, timeout)

    def append(self, call: AppendCall, timeout: float | None) -> Coroutine[Any, Any, list[AppendResult]]:
        """Appends record batches."""
        return append(self._partitions, self._appends, call, timeout)

    def deliver(self, opening: DeliverOpen) -> DeliverySession:
        """Opens a delivery stream."""
        return DeliverySession(opening, self._partitions)

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> LocalWatch | None:
        """A watch; None if a share-partition has records or is not loaded."""
        watched = []
        for partition in partitions:
            share_partition = self._partitions.loaded(group_id, *partition)
            if share_partition is None or not share_partition.is_quiet():
                return None
            watched.append(share_partition)
        return LocalWatch(watched)


class Fetch:
    """One acquire call; see the module."""

    __slots__ = (
        "_available",
        "_bytes",
        "_call",
        "_cold",
        "_failed",
        "_fetched",
        "_found",
        "_observed",
        "_partitions",
        "_request",
    )

    def __init__(self, call: AcquireCall, partitions: Leadership) -> None:
        self._call = call
        self._request = AcquireRequest(
            member_holder(call.member_id),
            call.max_records,
            call.batch_size or DEFAULT_BATCH_SIZE,
            call.mode,
            call.with_markers,
            call.session_id,
        )
        self._partitions = partitions
        self._bytes = 0
        self._cold = False
        self._fetched: dict[TopicIdPartition, list[Fetched]] = {}
        self._failed: dict[TopicIdPartition, KafkaError] = {}
        self._found: dict[TopicIdPartition, ShareGroupPartition] = {}
        self._observed: dict[ShareGroupPartition, None] = {}
        self._available = asyncio.Event()

    async def run(self) -> list[AcquireResult]:
        """The result of each partition, in the order of the call."""
        deadline = asyncio.get_running_loop().time() + self._call.max_wait
        missing = self._find_loaded()
        if missing:
            await self._load(missing)
        try:
            while True:
                self._available.clear()
                for part in self._due():
                    try:
                        share_partition = self._found.pop(part, None) or await self._share_partition(part)
                        fetched = share_partition.acquire(self._request, self._room)
                        if fetched is NotFetched.NOT_CACHED:
                            self._found = {}
                            fetched = await share_partition.acquire_uncached(self._request, self._room)
                    except KafkaError as error:
                        self._failed[part] = error
                    else:
                        self._add(part, share_partition, fetched)
                if self._is_complete() or self._call.max_wait <= 0:
                    break
                async with asyncio.timeout_at(deadline):
                    await self._available.wait()
        except TimeoutError:
            pass
        finally:
            for share_partition in self._observed:
                share_partition.remove_listener(self)
        return [self._result(part) for part in self._call.partitions]

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self._available.set()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The share-partition was unloaded; the next round finds its successor."""
        self._available.set()

    def _find_loaded(self) -> list[TopicIdPartition]:
        missing = []
        for part in self._call.partitions:
            loaded = self._partitions.loaded(self._call.group_id, *part)
            if loaded is None:
                missing.append(part)
            else:
                loaded.core.counts.fetches += 1
                self._found[part] = loaded
        return missing

    async def _load(self, missing: Sequence[TopicIdPartition]) -> None:
        self._cold = True
        self._found = {}
        loading = (self._partitions.share_partition(self._call.group_id, *part) for part in missing)
        for part, outcome in zip(
            missing, await asyncio.gather(*loading, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, KafkaError):
                self._failed[part] = outcome
            elif not isinstance(outcome, BaseException):
                outcome.core.counts.fetches += 1

    def _due(self) -> Iterator[TopicIdPartition]:
        """The partitions to serve in this round; ends when a limit is reached."""
        for part in self._call.partitions:
            if self._is_full():
                return
            if part not in self._failed:
                yield part

    def _is_full(self) -> bool:
        call = self._call
        return (
            self._request.max_records <= 0
            or self._bytes >= call.max_bytes > 0
            or (self._cold and self._bytes >= call.min_bytes > 0)
            or call.session_id in self._partitions.ended_sessions
        )

    def _is_complete(self) -> bool:
        enough = bool(self._fetched) and self._bytes >= self._call.min_bytes
        return enough or bool(self._failed) or self._is_full()

    async def _share_partition(self, part: TopicIdPartition) -> ShareGroupPartition:
        group_id = self._call.group_id
        loaded = self._partitions.loaded(group_id, *part)
        if loaded is None:
            self._found = {}
            loaded = await self._partitions.share_partition(group_id, *part)
        return loaded

    @property
    def _room(self) -> int:
        """Bytes that remain of the limit; 0 without a limit."""
        return self._call.max_bytes and self._call.max_bytes - self._bytes

    def _add(
        self, part: TopicIdPartition, share_partition: ShareGroupPartition, fetched: Fetched | NotFetched
    ) -> None:
        if not isinstance(fetched, Fetched):
            if self._call.max_wait > 0:
                self._observed[share_partition] = None
                share_partition.add_listener(self)
            return
        if part not in self._fetched:
            share_partition.core.counts.fetches_with_records += 1
        kept = Fetched(fetched.acquired, b"") if self._call.without_records else fetched
        self._fetched.setdefault(part, []).append(kept)
        request = self._request
        self._request = AcquireRequest(request.member, request.max_records - fetched.offsets, *request[2:])
        self._bytes += len(fetched.records)
        self._available.set()  # the partition may have more

    def _result(self, part: TopicIdPartition) -> AcquireResult:
        fetched = self._fetched.get(part)
        if fetched is None:
            error = self._failed.get(part)
            return AcquireResult(*part) if error is None else AcquireResult(*part, error.code, error.message)
        if len(fetched) == 1:
            return AcquireResult(*part, records=fetched[0].records, acquired=fetched[0].acquired)
        records = b"".join(item.records for item in fetched)
        return AcquireResult(
            *part, records=records, acquired=[run for item in fetched for run in item.acquired]
        )


_log = structlog.get_logger()


async def acknowledge(partitions: Leadership, call: AcknowledgeCall, timeout: float) -> list[AckResult]:
    """The result of each partition, in the order of the call. Raises REQUEST_TIMED_OUT."""
    results = _Results(call.parts)
    loading = []
    for index, part in enumerate(call.parts):
        share_partition = partitions.loaded(call.group_id, part.topic_id, part.partition)
        if share_partition is None:
            loading.append(asyncio.create_task(_load_and_apply(partitions, call, index, results)))
            continue
        try:
            _check_renewal(call, part)
            share_partition.acknowledge(
                member_holder(call.member_id), part.batches, partial(results.add, index), part.delay
            )
        except KafkaError as error:
            results.add(index, error)
    try:
        return await results.all(timeout)
    finally:
        for task in loading:
            task.cancel()


class _Results:
    """Collects the results of all parts with one future."""

    __slots__ = ("_done", "_errors", "_parts", "_remaining")

    def __init__(self, parts: Sequence[AckPart]) -> None:
        self._parts = parts
        self._errors: list[KafkaError | None] = [None] * len(parts)
        self._remaining = len(parts)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, index: int, error: KafkaError | None) -> None:
        """A part's acknowledgements are durable, or were rejected with `error`."""
        self._errors[index] = error
        self._remaining -= 1
        if not self._remaining and not self._done.done():
            self._done.set_result(None)

    async def all(self, timeout: float) -> list[AckResult]:
        """Waits for the last part. Raises REQUEST_TIMED_OUT."""
        if self._remaining:
            # `asyncio.timeout` costs as much as the acknowledgement itself.
            timer = asyncio.get_running_loop().call_later(timeout, self._expire, timeout)
            try:
                await self._done
            finally:
                timer.cancel()
        return [
            AckResult(part.topic_id, part.partition)
            if error is None
            else AckResult(part.topic_id, part.partition, error.code, error.message)
            for part, error in zip(self._parts, self._errors, strict=True)
        ]

    def _expire(self, timeout: float) -> None:
        if not self._done.done():
            error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No response within {timeout} s.")
            self._done.set_exception(error)


async def _load_and_apply(
    partitions: Leadership, call: AcknowledgeCall, index: int, results: _Results
) -> None:
    part = call.parts[index]
    share_partition: ShareGroupPartition
    try:
        share_partition = await partitions.share_partition(call.group_id, part.topic_id, part.partition)
        _check_renewal(call, part)
        share_partition.acknowledge(
            member_holder(call.member_id), part.batches, partial(results.add, index), part.delay
        )
    except NoStateError as error:  # retriable for a fetch; records of a missing state were never acquired
        results.add(index, KafkaError(ErrorCode.INVALID_RECORD_STATE, error.message))
    except KafkaError as error:
        results.add(index, error)
    except Exception:
        _log.exception("share-partition load failed", group=call.group_id, topic_id=part.topic_id)
        results.add(index, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))


def _check_renewal(call: AcknowledgeCall, part: AckPart) -> None:
    if not call.renew_allowed and any(RENEW in batch.types for batch in part.batches):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "RENEW is not allowed by this request.")


class LocalWatch(BaseWatch):
    """Waits at every share-partition; the first notification ends it."""

    __slots__ = ("_share_partitions",)

    def __init__(self, share_partitions: Sequence[ShareGroupPartition]) -> None:
        super().__init__()
        self._share_partitions = share_partitions
        for share_partition in share_partitions:
            share_partition.add_listener(self)

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self.end()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The share-partition was unloaded: a fetch has to find its successor."""
        self.end()

    @override
    def _stop(self) -> None:
        for share_partition in self._share_partitions:
            share_partition.remove_listener(self)
