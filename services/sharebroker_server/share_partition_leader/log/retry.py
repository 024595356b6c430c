"""Retries failed records: copies them for one share group, and no other one receives the copies.

A copy has the key, value and headers of the record, and the time of the copy. All copies of an append are
durable together with the note that states their group. The note also has the id of the request: a request
that is repeated, here or at the next leader, copies no record twice (decision 0105).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.aio import Turns
from sharebroker_server.record_log.copies import (
    CopySource,
    append_copies,
    encoded,
    read_sources,
    uncompressed,
)
from sharebroker_server.record_log.core import addressed
from sharebroker_server.record_log.core.batch import StoredBatch, header_of, parse_headers
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.share_partition_leader.leadership import Leadership, LedPartition

COPY_BYTES: Final = 1 << 20
"""The size of a batch of copies; a larger record has a batch of its own."""

Outcome = int | KafkaError
"""The offset of a copy (-1: it was only validated), or why there is none."""


class RetryCall:
    """The copies of one request in one partition."""

    def __init__(
        self, led: LedPartition, address: addressed.CopyAddress, now_ms: float, turns: Turns
    ) -> None:
        self._led = led
        self._log = led.own_log
        self._address = address
        self._now_ms = now_ms
        self._turns = turns

    async def run(self, offsets: Collection[int], *, validate_only: bool) -> Mapping[int, Outcome]:
        """Copies records, in the order of their offsets; returns the outcome of each.

        Raises:
            KafkaError: as `PartitionLog.append_noted` and `PartitionLog.read`; some may have been copied.
        """
        if len(offsets) > addressed.MAX_COPIES:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"At most {addressed.MAX_COPIES} records are retried at once."
            )
        outcomes: dict[int, Outcome] = {}
        pending = sorted(set(offsets))
        while pending:
            outcomes |= self._copied(pending)
            pending = [offset for offset in pending if offset not in outcomes]
            sources, failures = await self._sources(pending)
            outcomes |= failures
            if sources:
                outcomes |= await self._copy(sources, validate_only=validate_only)
        return outcomes

    def _copied(self, offsets: Sequence[int]) -> dict[int, int]:
        """Returns the copies that the request made before, by the offset of the record."""
        runs = addressed.copied(self._log.transactions.notes.items(), *self._address)
        found = ((offset, addressed.find_copy(runs, offset)) for offset in offsets) if runs else ()
        return {offset: copy for offset, copy in found if copy is not None}

    async def _sources(self, offsets: Sequence[int]) -> tuple[list[CopySource], dict[int, KafkaError]]:
        """Returns the records up to COPY_BYTES, at least one, and why others before their end are not copied.

        Raises:
            KafkaError: as `PartitionLog.read`.
        """
        reasons = {offset: self._why_not(offset) for offset in offsets}
        failures = {offset: KafkaError(*why) for offset, why in reasons.items() if why is not None}
        sources: list[CopySource] = []
        size, read_to = 0, -1
        for offset in offsets:
            if offset in failures or offset <= read_to:
                continue
            if size >= COPY_BYTES:
                break
            batches = await self._log.read(offset, 1)
            batch = batches[0] if batches and batches[0].base_offset <= offset else None
            if batch is None or batch.control:
                failures[offset] = _no_record(offset)
                continue
            wanted = {each for each in offsets if offset <= each <= batch.last_offset} - failures.keys()
            unstable = self._why_unstable(batch)
            if unstable:
                read_to = batch.last_offset
                failures |= dict.fromkeys(wanted, KafkaError(ErrorCode.INVALID_RECORD_STATE, unstable))
                continue
            plain = await uncompressed(batch)
            found, read_to = await self._turns.run(read_sources(plain, wanted, COPY_BYTES - size))
            failures |= {each: _no_record(each) for each in wanted - found.keys() if each <= read_to}
            sources += found.values()
            size += sum(source.size for source in found.values())
        return sources, failures

    def _why_not(self, offset: int) -> tuple[ErrorCode, str] | None:
        """Returns why the log does not permit to copy the record at an offset."""
        log, transactions = self._log, self._log.transactions
        if offset < log.log_start_offset:
            why = f"The record at offset {offset} was deleted; the log starts at {log.log_start_offset}."
            return ErrorCode.OFFSET_OUT_OF_RANGE, why
        if offset >= log.log_end_offset:
            why = f"The log has no offset {offset}; it ends at {log.log_end_offset}."
            return ErrorCode.OFFSET_OUT_OF_RANGE, why
        group = self._address.group_id
        if next(transactions.for_others(group, offset, offset + 1), None) is not None:
            return ErrorCode.INVALID_RECORD_STATE, f"The record at offset {offset} is for another group."
        if next(transactions.skipped_in(offset, offset + 1), None) is not None:
            why = f"The record at offset {offset} is a duplicate, or was recalled."
            return ErrorCode.INVALID_RECORD_STATE, why
        if transactions.schedules.due_of(offset) > self._now_ms:
            return ErrorCode.INVALID_RECORD_STATE, f"The record at offset {offset} is scheduled."
        return None

    def _why_unstable(self, batch: StoredBatch) -> str:
        """Returns why a transaction does not permit copies of a batch: consumers would read them at once."""
        if not header_of(batch.data).transactional:
            return ""
        if batch.last_offset >= self._log.last_stable_offset:
            return "The transaction of the record is open."
        return "The transaction of the record was aborted." if self._log.aborted_batches((batch,)) else ""

    async def _copy(self, sources: Sequence[CopySource], *, validate_only: bool) -> dict[int, Outcome]:
        """Appends a batch of copies of the first records; returns the outcome of these.

        There is no outcome if an earlier call of the request has appended them meanwhile.

        Raises:
            KafkaError: as `PartitionLog.append_noted`.
        """
        log, address = self._log, self._address
        longest = log.settings.max_message_bytes
        place = f"{self._led.topic.name}/{self._led.partition}"
        data, taken = encoded(sources, address, place, min(COPY_BYTES, longest), log.now_ms)
        try:
            parse_headers(data, longest)
        except KafkaError as error:  # MESSAGE_TOO_LARGE, since the copy has further headers
            return {taken[0]: error}
        if validate_only:
            return dict.fromkeys(taken, -1)
        try:
            appended = await self._led.traced(data, append_copies(log, data, taken, address))
        except addressed.AlreadyCopiedError:
            return {}
        return dict(zip(taken, range(appended.base_offset, appended.last_offset + 1), strict=True))


async def retry_records(
    leadership: Leadership,
    turns: Turns,
    request: pb.RetryRecordsRequest,
    led: LedPartition,
    part: pb.RetryRecordsRequest.Partition,
    response: pb.RetryRecordsResponse.Partition,
) -> None:
    """Copies records of a partition for a share group."""
    address = addressed.CopyAddress(request.group_id, request.request_id)
    call = RetryCall(led, address, leadership.stored_now_ms(), turns)
    outcomes = await call.run(part.offsets, validate_only=request.validate_only)
    for offset, outcome in sorted(outcomes.items(), key=itemgetter(0)):
        if isinstance(outcome, KafkaError):
            response.results.add(offset=offset, **refusal(outcome))
        else:
            response.results.add(offset=offset, copy_offset=outcome)


def _no_record(offset: int) -> KafkaError:
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"There is no record at offset {offset}.")
