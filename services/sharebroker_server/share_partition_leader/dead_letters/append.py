"""Appends dead letters to a led partition of a dead letter topic, each once (decision 0103)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from sharebroker_protocol.storage.v1 import dead_letter_pb2 as storage
from sharebroker_server.leader_calls.values import LettersCall, LettersResult
from sharebroker_server.record_log.appends import Noted
from sharebroker_server.record_log.core.batch import BatchHeader, parse_headers
from sharebroker_server.record_log.core.notes import Note, NotesDraft
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.core.letter_note import (
    NOTE_PREFIX,
    LetterNote,
    check_request,
    deltas,
    note_key,
    plan_letters,
    ranges_of,
)
from sharebroker_server.share_partition_leader.leadership import Leadership

_UNLIMITED: Final = 1 << 30


async def append_letters(leadership: Leadership, call: LettersCall, timeout: float) -> LettersResult:
    """Appends the letters of a call that the partition does not have yet; returns once they are durable.

    Raises:
        KafkaError: REQUEST_TIMED_OUT after `timeout` seconds. The letters may be appended later.
    """
    try:
        async with asyncio.timeout(timeout):
            led = await leadership.led(call.topic_id, call.partition)
            append = LetterAppend(call, led.own_log)
            await led.traced(call.records, led.own_log.append_noted(append.decide, len(call.records)))
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No response within {timeout} s.") from None
    except KafkaError as error:
        return LettersResult(error.code, error.message)
    return LettersResult(appended=append.appended)


class LetterAppend:
    """One call, checked; `decide` is its part of the append. `appended` is then the number of new letters.

    Raises:
        KafkaError: INVALID_REQUEST; errors of `LogSettings.headers`.
    """

    def __init__(self, call: LettersCall, log: PartitionLog) -> None:
        check_request(call.source_offsets, call.still_archiving)
        self._call = call
        self._log = log
        self._headers = self._checked(call.records)
        if sum(header.record_count for header in self._headers) != len(call.source_offsets):
            raise invalid_field("source_offsets", "The number of offsets and of records differs.")
        self.appended = 0

    def decide(self, notes: NotesDraft, base_offset: int) -> Noted:
        """Returns the letters to append at `base_offset`, and the note after them.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        call = self._call
        key = note_key(call.group_id, call.source_topic_id, call.source_partition, call.state_epoch)
        stored = notes.get(key)
        note = LetterNote() if stored is None else decoded(stored.value)
        sent = call.source_leader_epoch, call.sequence
        planned = plan_letters(note, sent, call.source_offsets, call.still_archiving)
        self.appended = len(planned.indexes)
        changes = {} if planned.note == note else {key: Note(encoded(planned.note))}
        if self.appended == len(call.source_offsets):
            return Noted(call.records, self._headers, changes)
        records = cut(call.records, planned.indexes)
        return Noted(records, self._checked(records), changes)

    def _checked(self, records: bytes) -> list[BatchHeader]:
        """Returns the header of the batch in `records`, none if it is empty. Raises KafkaError."""
        if not records:
            return []
        settings = self._log.settings
        headers = parse_headers(records, settings.max_message_bytes)
        header = headers[0]
        if len(headers) > 1 or header.codec or header.producer_id >= 0:
            raise KafkaError(ErrorCode.INVALID_RECORD, "Letters are sent in one batch without compression.")
        return settings.headers(records, self._log.now_ms)


async def expire_notes(log: PartitionLog, before_ms: int) -> None:
    """Removes the letter notes of a log that were last changed before `before_ms`.

    A letter that is sent again after that would be appended again.

    Raises:
        KafkaError: as `PartitionLog.remove_notes`.
    """
    notes = log.transactions.notes.items()
    await log.remove_notes(
        [key for key, note in notes if key.startswith(NOTE_PREFIX) and note.version < before_ms]
    )


def encoded(note: LetterNote) -> bytes:
    """Returns the stored form of a note."""
    message = storage.LettersWritten(
        source_leader_epoch=note.leader_epoch, ranges=deltas(note.written), sequence=note.sequence
    )
    return message.SerializeToString()


def decoded(value: bytes) -> LetterNote:
    """Returns the note of a stored form."""
    message = storage.LettersWritten.FromString(value)
    return LetterNote(message.source_leader_epoch, ranges_of(message.ranges), message.sequence)


def cut(batch: bytes, indexes: Sequence[int]) -> bytes:
    """Returns a batch of the records at these positions, ascending; nothing without one."""
    if not indexes:
        return b""
    builder = BatchBuilder(CODECS["none"], _UNLIMITED)
    records = list(DefaultRecordBatch(batch))
    for index in indexes:
        record = records[index]
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()
