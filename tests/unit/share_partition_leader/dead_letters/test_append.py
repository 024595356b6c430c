"""Dead letters are appended once, with the note that lists them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls import messages
from sharebroker_server.leader_calls.values import LettersCall, LettersResult
from sharebroker_server.record_log.core.notes import MAX_NOTE_BYTES
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.core.letter_note import (
    MAX_LETTERS,
    MAX_RANGES,
    LetterNote,
    note_key,
)
from sharebroker_server.share_partition_leader.dead_letters.append import (
    cut,
    decoded,
    encoded,
    expire_notes,
)
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import until_open
from tests.unit.share_partition_leader.harness import TOPIC, Harness

SOURCE = "S" * 22
KEY = note_key("g", SOURCE, 5, 1)


def letters(offsets: Sequence[int]) -> bytes:
    builder = BatchBuilder(CODECS["none"], 1 << 20)
    for offset in offsets:
        builder.append(1_700_000_000_000, b"k", str(offset).encode(), [("a", b"1"), ("a", None)])
    return builder.build() if offsets else b""


def call(
    *offsets: int,
    epoch: int = 3,
    still: Sequence[tuple[int, int]] = ((0, 99),),
    state_epoch: int = 1,
    sequence: int = 1,
) -> LettersCall:
    return LettersCall(
        TOPIC, 0, "g", SOURCE, 5, state_epoch, epoch, sequence, letters(offsets), offsets, still
    )


async def append(harness: Harness, request: LettersCall) -> LettersResult:
    return await harness.local.append_letters(request, 5.0)


async def led(harness: Harness) -> PartitionLog:
    return (await harness.leadership.led(TOPIC, 0)).own_log


async def values(log: PartitionLog) -> list[bytes]:
    found: list[bytes] = []
    for stored in await log.read(log.log_start_offset, 1 << 20):
        found += [record.value for record in DefaultRecordBatch(stored.data)]
    return found


async def test_repeated_letters_are_appended_once(harness: Harness) -> None:
    await harness.create_topic()
    assert await append(harness, call(1, 2)) == LettersResult(appended=2)
    assert await append(harness, call(1, 2)) == LettersResult()
    assert await append(harness, call(1, 2, 3, 7)) == LettersResult(appended=2)
    assert await values(await led(harness)) == [b"1", b"2", b"3", b"7"]
    record = next(iter(DefaultRecordBatch((await (await led(harness)).read(2, 1))[0].data)))
    assert (record.key, record.headers) == (b"k", [("a", b"1"), ("a", None)])


async def test_simultaneous_repetitions_are_appended_once(harness: Harness) -> None:
    await harness.create_topic()
    results = await asyncio.gather(*(append(harness, call(1, 2)) for _ in range(3)))
    assert sorted(result.appended for result in results) == [0, 0, 2]
    assert await values(await led(harness)) == [b"1", b"2"]


async def test_the_note_survives_a_change_of_leader(harness: Harness) -> None:
    await harness.create_topic()
    await append(harness, call(1, 2))
    log = await led(harness)
    again = await PartitionLog.open(log.partition, log.epoch, harness.records, log._lease)
    assert {key: decoded(note.value) for key, note in again.transactions.notes.items()} == {
        f"dlq:g\0{SOURCE}\x005\x001": (3, ((1, 2),), 1)
    }


async def test_letters_that_cannot_be_sent_again_leave_the_note(harness: Harness) -> None:
    await harness.create_topic()
    await append(harness, call(1, 2))
    assert await append(harness, call(still=[(2, 2)])) == LettersResult()
    note = (await led(harness)).transactions.notes.get(KEY)
    assert note is not None
    assert decoded(note.value) == (3, ((2, 2),), 1)


async def test_an_earlier_leader_is_fenced(harness: Harness) -> None:
    await harness.create_topic()
    await append(harness, call(epoch=4, still=[]))
    refused = await append(harness, call(1))
    assert refused.error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert await values(await led(harness)) == []


async def test_a_late_request_of_the_same_leader_is_rejected(harness: Harness) -> None:
    await harness.create_topic()
    for sequence in (2, 3):  # the first one was archived before the second was sent
        await append(harness, call(sequence, sequence=sequence, still=[(sequence, sequence)]))
    late = await append(harness, call(2, sequence=2, still=[(2, 2)]))
    assert late.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await values(await led(harness)) == [b"2", b"3"]


async def test_altered_offsets_may_fail_again(harness: Harness) -> None:
    await harness.create_topic()
    for state_epoch in (1, 2):
        assert (await append(harness, call(1, state_epoch=state_epoch))).appended == 1


async def test_letters_of_unknown_outcome_can_be_sent_again(harness: Harness) -> None:
    await harness.create_topic()
    for fault in (Fault.DONE_UNKNOWN, Fault.LOST_UNKNOWN):
        harness.records.fail_next_append(fault)
        request = call(1, 2) if fault is Fault.DONE_UNKNOWN else call(3)
        assert (await append(harness, request)).error_code is ErrorCode.REQUEST_TIMED_OUT
        log = await led(harness)
        await until_open(log)
        await append(harness, request)
    assert await values(await led(harness)) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("records", "offsets", "code"),
    [
        pytest.param(letters([1, 2]), (1,), ErrorCode.INVALID_REQUEST, id="too many records"),
        pytest.param(b"", (1,), ErrorCode.INVALID_REQUEST, id="no record"),
        pytest.param(letters([1]) * 2, (1, 2), ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(batch(2, codec=1), (1, 2), ErrorCode.INVALID_RECORD, id="compressed"),
        pytest.param(batch(2, producer=(7, 0, 0)), (1, 2), ErrorCode.INVALID_RECORD, id="idempotent"),
        pytest.param(b"x" * 99, (1,), ErrorCode.INVALID_RECORD, id="damaged"),
        pytest.param(letters([1, 2]), (2, 1), ErrorCode.INVALID_REQUEST, id="descending"),
        pytest.param(batch(1, 2_000_000), (1,), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
    ],
)
async def test_invalid_letters_are_rejected(
    harness: Harness, records: bytes, offsets: tuple[int, ...], code: ErrorCode
) -> None:
    await harness.create_topic()
    request = call()._replace(records=records, source_offsets=offsets)
    assert (await append(harness, request)).error_code is code
    assert await values(await led(harness)) == []


async def test_errors_name_the_partition(harness: Harness) -> None:
    await harness.create_topic()
    unknown = await append(harness, call(1)._replace(partition=9))
    assert unknown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_late_append_times_out(harness: Harness) -> None:
    await harness.create_topic()
    await led(harness)
    harness.records.hold()
    with pytest.raises(KafkaError) as caught:
        await harness.local.append_letters(call(1), 0.01)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    harness.records.release()
    await eventually(lambda: harness.records.appends != [])
    assert (await append(harness, call(1))).appended == 0


async def test_another_process_sends_messages(harness: Harness) -> None:
    await harness.create_topic()
    response: pb.AppendDeadLettersResponse
    for number in (2, 0):
        response = await harness.stub.AppendDeadLetters(messages.letters_request(call(1, 2)))
        assert messages.letters_result(response) == LettersResult(appended=number)


async def test_notes_expire_with_producers(harness: Harness) -> None:
    await harness.create_topic()
    await append(harness, call(1))
    log = await led(harness)
    note = log.transactions.notes.get(KEY)
    assert note is not None
    await expire_notes(log, note.version)
    assert len(log.transactions.notes) == 1
    await expire_notes(log, note.version + 1)
    assert len(log.transactions.notes) == 0


def test_records_are_cut_from_a_batch() -> None:
    batch_of_four = letters([1, 2, 3, 4])
    assert cut(batch_of_four, []) == b""
    assert cut(batch_of_four, [1, 3]) == letters([2, 4])
    assert cut(batch_of_four, [0, 1, 2, 3]) == batch_of_four


def test_the_largest_note_fits() -> None:
    written = tuple((3_000_000 * number, 3_000_000 * number) for number in range(MAX_RANGES + MAX_LETTERS))
    note = LetterNote(1 << 20, written, 1 << 40)
    assert len(encoded(note)) < MAX_NOTE_BYTES
    assert decoded(encoded(note)) == note
