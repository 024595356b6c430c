"""Acknowledgements and reconciliations: applied at once, they end when all of their parts are durable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckType, AcquiredRange
from sharebroker_server.leader_calls import values
from sharebroker_server.share_partition_leader.core.events import Acknowledge, RenewAll
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.share_partition_leader.share_partition.holders import member_holder
from sharebroker_server.share_partition_leader.share_partition.reading import NoStateError
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)

_log = structlog.get_logger()

_RENEW = int(AckType.RENEW)


class _DurableCall:
    """A call whose parts are applied to share-partitions, and that ends when all of them are durable.

    A part is applied at once if its share-partition is loaded, else once it is. `errors` has the outcome of
    each part; the first one counts.
    """

    def __init__(
        self, leadership: Leadership, group_id: str, holder: str, parts: Sequence[values.AckPart]
    ) -> None:
        self.errors: list[KafkaError | None] = [None] * len(parts)
        self._leadership = leadership
        self._group_id = group_id
        self._holder = holder
        self._parts = parts
        self._pending = set(range(len(parts)))
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _apply(self, index: int, part: values.AckPart, share_partition: ShareGroupPartition) -> None:
        """Applies a part; `_complete` is called once it is durable. Raises KafkaError if it is rejected."""
        raise NotImplementedError

    async def run(self, timeout: float) -> bool:
        """Applies all parts; returns whether they have an outcome within `timeout` seconds."""
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
        return not self._pending

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
            self.errors[index] = error
            if not self._pending:
                self._end()

    def _end(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


class DurableAcknowledgements(_DurableCall):
    """An acknowledge call: all or nothing per partition."""

    def __init__(self, leadership: Leadership, call: values.AcknowledgeCall) -> None:
        holder = member_holder(call.member_id, call.principal)
        super().__init__(leadership, call.group_id, holder, call.parts)
        self._renew_allowed = call.renew_allowed

    def _apply(self, index: int, part: values.AckPart, share_partition: ShareGroupPartition) -> None:
        if not self._renew_allowed and any(_RENEW in batch.types for batch in part.batches):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "RENEW is not allowed by this request.")
        reply = partial(self._complete, index)
        share_partition.handle(Acknowledge(self._holder, part.batches, reply, part.delay))

    def _load_error(self, error: KafkaError) -> KafkaError:
        if isinstance(error, NoStateError):  # retriable for a fetch; records of a missing state had no holder
            return KafkaError(ErrorCode.INVALID_RECORD_STATE, error.message)
        return error


class DurableReconciliation(_DurableCall):
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
            reply = partial(self._complete, index)
            self._unchanged[index] = share_partition.reconcile(self._holder, part.batches, reply)
        else:
            self._complete(index, None)

    def fail_pending(self, error: KafkaError) -> None:
        """Ends the parts without an outcome."""
        for index in list(self._pending):
            self._complete(index, error)

    def results(self) -> Iterator[values.ReconcileResult]:
        """The result of each partition of the call."""
        for index, (topic_id, partition, *_) in enumerate(self._parts):
            error = self.errors[index]
            if error is None:
                unchanged = tuple(self._unchanged.get(index, ()))
                held = self._held(self._found[index])
                yield values.ReconcileResult(topic_id, partition, left=unchanged, held=held)
            else:
                yield values.ReconcileResult(topic_id, partition, error.code, error.message)

    def other_held(self) -> Iterator[values.ReconcileResult]:
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
