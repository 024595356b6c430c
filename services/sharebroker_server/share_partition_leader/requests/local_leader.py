"""The calls of a gateway in the same process: plain values, no messages.

A fetch (`Fetch`) waits for records. Acknowledgements and reconciliations (`_DurableCall`) are applied at once
and wait until they are durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckType, AcquiredRange, TopicIdPartition
from sharebroker_server.leader_calls import values
from sharebroker_server.leader_calls.watches import BaseWatch
from sharebroker_server.share_partition_leader.core.events import (
    DEFAULT_BATCH_SIZE,
    Acknowledge,
    AcquireRequest,
    RenewAll,
)
from sharebroker_server.share_partition_leader.core.runs import member_holder
from sharebroker_server.share_partition_leader.leadership import LOADS_AT_ONCE, Leadership
from sharebroker_server.share_partition_leader.requests.deliver_stream import DeliverySession
from sharebroker_server.share_partition_leader.share_partition.reading import (
    Fetched,
    NoStateError,
    NotFetched,
)
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)

_log = structlog.get_logger()

PORTION: Final = 500
"""Partitions that a fetch or a watch serves in one turn of the event loop."""

LONGEST_LOAD: Final = 5.0
"""Seconds after which a fetch loads no more share-partitions if loads failed and its wait is over.

Each portion would otherwise take the persister's time-out while a share coordinator is not available.
"""

_RENEW = int(AckType.RENEW)
Append = Callable[[values.AppendCall, float | None], Awaitable[list[values.AppendResult]]]
AppendLetters = Callable[[values.LettersCall, float], Awaitable[values.LettersResult]]
R = TypeVar("R", values.AckResult, values.ReconcileResult)


class LocalLeader:
    """`LeaderCalls` on the partitions that this process leads.

    `append` serves appends (`Appends`), `append_letters` those of dead letters.

    Methods return coroutines of their collaborators, so that a call adds no stack frame.
    """

    def __init__(self, leadership: Leadership, append: Append, append_letters: AppendLetters) -> None:
        self._leadership = leadership
        self.append = append
        self.append_letters = append_letters

    def acquire(self, call: values.AcquireCall) -> Awaitable[list[values.AcquireResult]]:
        """Runs a fetch."""
        return Fetch(call, self._leadership).run()

    def acknowledge(self, call: values.AcknowledgeCall, timeout: float) -> Awaitable[list[values.AckResult]]:
        """Applies acknowledgements, all or nothing per partition. Raises REQUEST_TIMED_OUT."""
        return _Acknowledgements(self._leadership, call).run(timeout)

    def reconcile(
        self, call: values.ReconcileCall, timeout: float
    ) -> Awaitable[list[values.ReconcileResult]]:
        """Results of the call's partitions in order, then those of other partitions with held locks.

        Parts that are late get REQUEST_TIMED_OUT.
        """
        return _Reconciliation(self._leadership, call).run(timeout)

    def deliver(self, opening: values.DeliverOpen) -> DeliverySession:
        """Opens a delivery stream."""
        return DeliverySession(opening, self._leadership)

    async def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> LocalWatch | None:
        """A watch; None if a share-partition has records or is not loaded. Begins in portions."""
        watch, complete = LocalWatch(), False
        try:
            for number, partition in enumerate(partitions, 1):
                if not number % PORTION:
                    await asyncio.sleep(0)
                found = self._leadership.loaded(group_id, *partition)
                if not watch.active or found is None or not found.has_nothing_to_acquire():
                    return None
                watch.add(found)
            complete = True
            return watch
        finally:
            if not complete:
                watch.end()


class Fetch:
    """One fetch: acquires records, or waits until some become available or its time ends.

    A run has three steps.

    1. Load: share-partitions that are not loaded are loaded, LOADS_AT_ONCE concurrently. A share-partition
       that `loaded` returned is valid until the next `await`, so `_found` is cleared before every wait.
    2. Round: each partition is served once, in the order of the call, until the record or byte limit is
       reached. Records in the hot cache are acquired synchronously; only a read from the store, and the end
       of each PORTION, suspend the fetch.
    3. Wait: without records, the fetch waits at every share-partition (`AvailabilityListener`) and starts
       another round when one notifies it.

    Errors: a partition that failed is not served again in this fetch. If another partition had records, the
    error is left to the next fetch. A share session that ended acquires nothing more: nothing would release
    its records.
    """

    def __init__(self, call: values.AcquireCall, leadership: Leadership) -> None:
        self._call = call
        self._request = AcquireRequest(
            member_holder(call.member_id, call.principal),
            call.max_records,
            call.batch_size or DEFAULT_BATCH_SIZE,
            call.mode,
            call.with_markers,
            call.session_id,
            call.lock,
        )
        self._leadership = leadership
        if call.client_id and (member := (call.group_id, call.member_id)) not in leadership.clients:
            leadership.add_client(member, call.client_id)
        self._bytes = 0
        self._cold = False
        self._fetched: dict[TopicIdPartition, list[Fetched]] = {}
        self._failed: dict[TopicIdPartition, KafkaError] = {}
        self._found: dict[TopicIdPartition, ShareGroupPartition] = {}
        self._observed: dict[ShareGroupPartition, None] = {}
        self._available = asyncio.Event()

    async def run(self) -> list[values.AcquireResult]:
        """The result of each partition, in the order of the call."""
        deadline = asyncio.get_running_loop().time() + self._call.max_wait
        missing = await self._find_loaded()
        if missing:
            self._cold = True
            self._found = {}
            await self._load_all(missing, max(deadline, asyncio.get_running_loop().time() + LONGEST_LOAD))
        try:
            while True:
                self._available.clear()
                for number, part in enumerate(self._call.partitions, 1):
                    if not number % PORTION:
                        await self._pause()
                    if self._is_full():  # after the pause, in which the session may have ended
                        break
                    if part not in self._failed:
                        await self._serve(part)
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

    async def _pause(self) -> None:
        """Other requests are served between two portions."""
        self._found = {}
        await asyncio.sleep(0)

    async def _find_loaded(self) -> list[TopicIdPartition]:
        missing = []
        for number, part in enumerate(self._call.partitions, 1):
            if not number % PORTION:
                await self._pause()
            loaded = self._leadership.loaded(self._call.group_id, *part)
            if loaded is None:
                missing.append(part)
            else:
                loaded.core.counts.fetches += 1
                self._found[part] = loaded
        return missing

    async def _load_all(self, missing: Sequence[TopicIdPartition], until: float) -> None:
        """Loads share-partitions; after `until` no more of them if some could not be loaded."""
        for start in range(0, len(missing), LOADS_AT_ONCE):
            if self._failed and asyncio.get_running_loop().time() >= until:
                error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Earlier loads took too long.")
                self._failed.update(dict.fromkeys(missing[start:], error))
                return
            await asyncio.gather(*map(self._load, missing[start : start + LOADS_AT_ONCE]))

    async def _load(self, part: TopicIdPartition) -> None:
        try:
            loaded = await self._leadership.share_partition(self._call.group_id, *part)
        except KafkaError as error:
            self._failed[part] = error
        else:
            loaded.core.counts.fetches += 1

    async def _serve(self, part: TopicIdPartition) -> None:
        """Acquires from a partition; only its load or a read from the store suspends the fetch."""
        group_id = self._call.group_id
        try:
            share_partition = self._found.pop(part, None) or self._leadership.loaded(group_id, *part)
            if share_partition is None:
                self._found = {}
                share_partition = await self._leadership.share_partition(group_id, *part)
                if self._has_ended():
                    return
            fetched = share_partition.acquire(self._request, self._room)
            if fetched is NotFetched.NOT_CACHED:
                self._found = {}
                fetched = await share_partition.acquire_uncached(
                    self._request, self._room, self._leadership.ended_sessions
                )
        except KafkaError as error:
            self._failed[part] = error
        else:
            self._add(part, share_partition, fetched)

    def _is_full(self) -> bool:
        call = self._call
        return (
            self._request.max_records <= 0
            or self._bytes >= call.max_bytes > 0
            or (self._cold and self._bytes >= call.min_bytes > 0)
            or self._has_ended()
        )

    def _has_ended(self) -> bool:
        """Whether the share session of the fetch has ended."""
        return self._call.session_id in self._leadership.ended_sessions

    def _is_complete(self) -> bool:
        enough = bool(self._fetched) and self._bytes >= self._call.min_bytes
        return enough or bool(self._failed) or self._is_full()

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
        self._request = request.limited_to(request.max_records - fetched.offsets)
        self._bytes += len(fetched.records)
        self._available.set()  # the partition may have more

    def _result(self, part: TopicIdPartition) -> values.AcquireResult:
        fetched = self._fetched.get(part)
        if fetched is None:
            error = self._failed.get(part)
            return (
                values.AcquireResult(*part)
                if error is None
                else values.AcquireResult(*part, error.code, error.message)
            )
        records = b"".join(item.records for item in fetched)
        return values.AcquireResult(
            *part, records=records, acquired=[run for item in fetched for run in item.acquired]
        )


class LocalWatch(BaseWatch):
    """Waits at every share-partition; the first notification ends it."""

    __slots__ = ("_share_partitions",)

    def __init__(self) -> None:
        super().__init__()
        self._share_partitions: list[ShareGroupPartition] = []

    def add(self, share_partition: ShareGroupPartition) -> None:
        """Waits at a share-partition as well; the watch must be active."""
        self._share_partitions.append(share_partition)
        share_partition.add_listener(self)

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self.end()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """The share-partition was unloaded: a fetch has to find its successor."""
        self.end()

    def _stop(self) -> None:
        for share_partition in self._share_partitions:
            share_partition.remove_listener(self)


class _DurableCall(Generic[R]):
    """A call whose parts are applied to share-partitions, and that ends when all of them are durable.

    A part is applied at once if its share-partition is loaded, else once it is. `_errors` has the outcome of
    each part; the first one counts. `_pending` are the parts without an outcome.
    """

    def __init__(
        self, leadership: Leadership, group_id: str, holder: str, parts: Sequence[values.AckPart]
    ) -> None:
        self._errors: list[KafkaError | None] = [None] * len(parts)
        self._leadership = leadership
        self._group_id = group_id
        self._holder = holder
        self._parts = parts
        self._pending = set(range(len(parts)))
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _apply(self, index: int, part: values.AckPart, share_partition: ShareGroupPartition) -> None:
        """Applies a part; `_complete` is called once it is durable. Raises KafkaError if it is rejected."""
        raise NotImplementedError

    def _results(self) -> list[R]:
        """The result of the call, once all parts have an outcome."""
        raise NotImplementedError

    def _time_out(self, error: KafkaError) -> None:
        """Handles parts without an outcome: raises `error`."""
        raise error

    async def run(self, timeout: float) -> list[R]:
        """Applies all parts; waits at most `timeout` seconds until they are durable or rejected."""
        loading = []
        for index, part in enumerate(self._parts):
            loaded = self._leadership.loaded(self._group_id, part.topic_id, part.partition)
            if loaded is None:
                loading.append(asyncio.create_task(self._load_and_apply(index, part)))
                continue
            try:
                self._apply(index, part, loaded)
            except KafkaError as error:
                self._complete(index, error)
        if self._pending:
            # `asyncio.timeout` costs as much as an acknowledgement itself.
            timer = asyncio.get_running_loop().call_later(timeout, self._end)
            try:
                await self._done
            finally:
                timer.cancel()
                for task in loading:
                    task.cancel()
        if self._pending:
            self._time_out(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Not durable within {timeout} s."))
        return self._results()

    async def _load_and_apply(self, index: int, part: values.AckPart) -> None:
        try:
            loaded = await self._leadership.share_partition(self._group_id, part.topic_id, part.partition)
            self._apply(index, part, loaded)
        except KafkaError as error:
            self._complete(index, self._load_error(error))
        except Exception:
            _log.exception("share-partition load failed", group=self._group_id, topic_id=part.topic_id)
            self._complete(index, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _load_error(self, error: KafkaError) -> KafkaError:
        return error

    def _complete(self, index: int, error: KafkaError | None) -> None:
        """A part is durable, or was rejected with `error`."""
        if index in self._pending:
            self._pending.remove(index)
            self._errors[index] = error
            if not self._pending:
                self._end()

    def _end(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


class _Acknowledgements(_DurableCall[values.AckResult]):
    """An acknowledge call: all or nothing per partition. If a part is late, the call fails."""

    def __init__(self, leadership: Leadership, call: values.AcknowledgeCall) -> None:
        holder = member_holder(call.member_id, call.principal)
        super().__init__(leadership, call.group_id, holder, call.parts)
        self._renew_allowed = call.renew_allowed

    def _apply(self, index: int, part: values.AckPart, share_partition: ShareGroupPartition) -> None:
        if not self._renew_allowed and any(_RENEW in batch.types for batch in part.batches):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "RENEW is not allowed by this request.")
        if part.delay:
            share_partition.check_delay(part.delay * 1000, "delay_ms")
        share_partition.handle(
            Acknowledge(
                self._holder,
                part.batches,
                lambda error: self._complete(index, error),
                part.delay,
                part.lock,
                part.blameless,
                part.reason,
            )
        )

    def _results(self) -> list[values.AckResult]:
        return [
            values.AckResult(part.topic_id, part.partition)
            if error is None
            else values.AckResult(part.topic_id, part.partition, error.code, error.message)
            for part, error in zip(self._parts, self._errors, strict=True)
        ]

    def _load_error(self, error: KafkaError) -> KafkaError:
        if isinstance(error, NoStateError):  # retriable for a fetch; records of a missing state had no holder
            return KafkaError(ErrorCode.INVALID_RECORD_STATE, error.message)
        return error


class _Reconciliation(_DurableCall[values.ReconcileResult]):
    """Brings the records of a planned batch to the states that its commit demands."""

    def __init__(self, leadership: Leadership, call: values.ReconcileCall) -> None:
        holder = member_holder(call.member_id, call.principal)
        super().__init__(leadership, call.group_id, holder, call.parts)
        self._call = call
        self._found: dict[int, ShareGroupPartition] = {}
        self._unchanged: dict[int, Sequence[values.Unreconciled]] = {}

    def _apply(self, index: int, part: values.AckPart, share_partition: ShareGroupPartition) -> None:
        self._found[index] = share_partition
        if part.batches:
            self._unchanged[index] = share_partition.reconcile(
                self._holder, part.batches, lambda error: self._complete(index, error)
            )
        else:
            self._complete(index, None)

    def _time_out(self, error: KafkaError) -> None:
        for index in list(self._pending):
            self._complete(index, error)

    def _results(self) -> list[values.ReconcileResult]:
        return [*self._of_parts(), *self._of_other_held()]

    def _of_parts(self) -> Iterator[values.ReconcileResult]:
        for index, (topic_id, partition, *_) in enumerate(self._parts):
            error = self._errors[index]
            if error is None:
                unchanged = tuple(self._unchanged.get(index, ()))
                held = self._held(self._found[index])
                yield values.ReconcileResult(topic_id, partition, left=unchanged, held=held)
            else:
                yield values.ReconcileResult(topic_id, partition, error.code, error.message)

    def _of_other_held(self) -> Iterator[values.ReconcileResult]:
        """The locks that the member holds in other partitions of the requested topics."""
        named = {(part.topic_id, part.partition) for part in self._parts}
        topic_ids = {*self._call.topic_ids}
        for led in self._leadership.partitions() if topic_ids else ():
            share_partition = led.ready.get(self._group_id)  # without a check of the lease
            if share_partition is None or led.topic.topic_id not in topic_ids:
                continue
            part = (share_partition.topic_id, share_partition.partition)
            if part in named or not share_partition.core.in_flight.holds(self._holder):
                continue
            if self._leadership.loaded(self._group_id, *part) is share_partition:
                yield values.ReconcileResult(*part, held=self._held(share_partition))
            else:
                yield values.ReconcileResult(
                    *part, ErrorCode.NOT_LEADER_OR_FOLLOWER, "The lease may have expired."
                )

    def _held(self, share_partition: ShareGroupPartition) -> list[AcquiredRange]:
        if self._call.renew_held:
            share_partition.handle(RenewAll(self._holder))
        return share_partition.core.in_flight.held_by(self._holder)
