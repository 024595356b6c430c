"""Redrives dead letters: appends the records of letters, for one share group or for all.

A note that is attached to the records states of which letters they are. A call that is repeated, here or at
the next leader, appends the record of a letter once (decision 0106). For one group the records are addressed,
as the copies of `retry` are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final

from sharebroker_protocol.errors import KafkaError, invalid_field
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.appends import Appended, Noted
from sharebroker_server.record_log.copies import CopySource, copy_headers, packed
from sharebroker_server.record_log.core import addressed
from sharebroker_server.record_log.core.batch import parse_headers
from sharebroker_server.record_log.core.notes import NotesDraft
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.share_partition_leader.leadership import LedPartition

BATCH_BYTES: Final = 1 << 20
"""The size of a batch of records; a larger record has a batch of its own."""

Outcome = int | KafkaError
"""The offset of a record (-1: it was only validated), or why there is none."""


class RedriveCall:
    """The records of one request for one partition, by the offsets of their letters."""

    def __init__(
        self,
        led: LedPartition,
        address: addressed.CopyAddress,
        records: Sequence[pb.RedriveRecordsRequest.Record],
    ) -> None:
        self._led = led
        self._log = led.own_log
        self._address = address
        self._records = {record.letter_offset: record for record in records}
        if len(self._records) < len(records):
            raise invalid_field("records", "A letter occurs twice.")
        if len(records) > addressed.MAX_COPIES:
            raise invalid_field("records", f"At most {addressed.MAX_COPIES} letters are redriven at once.")

    async def run(self, *, validate_only: bool) -> Mapping[int, Outcome]:
        """Appends the records that the partition does not have yet; returns the outcome of each.

        Raises:
            KafkaError: as `PartitionLog.append_noted`; some may have been appended.
        """
        outcomes: dict[int, Outcome] = {}
        pending = list(self._records)
        while pending:
            outcomes |= self._redriven(pending)
            pending = [letter for letter in pending if letter not in outcomes]
            if pending:
                outcomes |= await self._append(pending, validate_only=validate_only)
        return outcomes

    def _redriven(self, letters: Sequence[int]) -> dict[int, int]:
        """Returns the records that earlier calls appended, by their letters."""
        runs = addressed.redriven(self._log.transactions.notes.items(), self._address)
        found = ((letter, addressed.find_copy(runs, letter)) for letter in letters)
        return {letter: copy for letter, copy in found if copy is not None}

    async def _append(self, letters: Sequence[int], *, validate_only: bool) -> dict[int, Outcome]:
        """Appends a batch of the first records; returns the outcome of these.

        There is no outcome if another call has appended some of them meanwhile.

        Raises:
            KafkaError: as `PartitionLog.append_noted`.
        """
        log, longest = self._log, self._log.settings.max_message_bytes
        sources = (self._source(self._records[letter]) for letter in letters)
        data, taken = packed(sources, min(BATCH_BYTES, longest), log.now_ms)
        try:
            parse_headers(data, longest)
        except KafkaError as error:  # MESSAGE_TOO_LARGE
            return {taken[0]: error}
        if validate_only:
            return dict.fromkeys(taken, -1)
        try:
            appended = await self._led.traced(data, self._append_noted(data, taken))
        except addressed.AlreadyCopiedError:
            return {}
        return dict(zip(taken, range(appended.base_offset, appended.last_offset + 1), strict=True))

    def _source(self, record: pb.RedriveRecordsRequest.Record) -> CopySource:
        headers = [
            (header.key, header.value if header.HasField("value") else None) for header in record.headers
        ]
        return CopySource(
            record.letter_offset,
            record.key if record.HasField("key") else None,
            record.value if record.HasField("value") else None,
            copy_headers(headers, self._address.group_id, record.source),
        )

    async def _append_noted(self, data: bytes, letters: Sequence[int]) -> Appended:
        """Appends a batch together with its notes. Raises AlreadyCopiedError, KafkaError."""
        log, address = self._log, self._address
        headers = parse_headers(data, log.settings.max_message_bytes)

        def decide(notes: NotesDraft, base_offset: int) -> Noted:
            known = (*log.transactions.notes.items(), *notes.changed.items())
            addressed.check_not_redriven(known, letters, address)
            changes = addressed.redrive_note(letters, base_offset, address)
            if address.group_id:
                failed = [self._records[letter].source_offset for letter in letters]
                changes |= addressed.note_of(failed, base_offset, address)
            return Noted(data, headers, changes)

        return await log.append_noted(decide, len(data))


async def redrive_records(
    request: pb.RedriveRecordsRequest,
    led: LedPartition,
    part: pb.RedriveRecordsRequest.Partition,
    response: pb.RedriveRecordsResponse.Partition,
) -> None:
    """Appends the records of letters to a partition."""
    address = addressed.CopyAddress(request.group_id, request.request_id)
    outcomes = await RedriveCall(led, address, part.records).run(validate_only=request.validate_only)
    for letter, outcome in sorted(outcomes.items(), key=itemgetter(0)):
        if isinstance(outcome, KafkaError):
            response.results.add(letter_offset=letter, **refusal(outcome))
        else:
            response.results.add(letter_offset=letter, copy_offset=outcome)
