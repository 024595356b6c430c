"""Control records of share state: the vectors of the first design of KIP-932, and every field of ours."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import assume, given

from sharebroker_protocol.model import (
    Disposition,
    FailedRecords,
    FailureNote,
    JournalUpdate,
    RecordState,
    SharePartitionKey,
    StateBatch,
    StateNote,
)
from sharebroker_server.record_log.core.share_control import SHARE_CHECKPOINT, SHARE_DELTA, ControlRecord
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import Inspect, Inspection
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from sharebroker_server.share_coordinator.store.control_format import decode, encode
from sharebroker_server.share_partition_leader.core.events import LoadedState, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from tests.unit.share_coordinator.harness import TOPIC, batch
from tests.unit.share_coordinator.store.test_codec import records

KEY: Final = SharePartitionKey("G1", TOPIC, 0)
TIME: Final = 1_700_000_000_000
GROUP: Final = "03 4731"  # compact string: length plus one, then "G1"

Row = tuple[int, int, int, int]
"""BaseOffset, LastOffset, State, DeliveryCount."""


def offset(number: int) -> str:
    return f"{number:016x}"


def runs(*rows: Row) -> str:
    """A compact array: the number plus one, then each run with the number of its tagged fields."""
    packed = [f"{offset(first)}{offset(last)}{state:02x}{count:04x}00" for first, last, state, count in rows]
    return f"{len(rows) + 1:02x}" + "".join(packed)


def checkpoint(epoch: int, start: int, end: int, *rows: Row) -> tuple[ShareRecord, str]:
    """The record and the bytes of a checkpoint as the design has it: version, fields, no tagged fields."""
    state_batches = tuple(StateBatch(*row) for row in rows)
    record = ShareCheckpoint(KEY, epoch, 0, 0, start, -1, TIME, TIME, state_batches)
    return record, f"0000 {GROUP} {epoch:08x} {offset(start)} {offset(end)} {runs(*rows)} 00"


def delta(epoch: int, *rows: Row) -> tuple[ShareRecord, str]:
    record = ShareDelta(KEY, 0, epoch, -1, -1, -1, tuple(StateBatch(*row) for row in rows), TIME)
    return record, f"0000 {GROUP} {epoch:08x} {runs(*rows)} 00"


EXAMPLE: Final[dict[int, tuple[ShareRecord, str]]] = {
    # The design contradicts itself here: its table has SPSO=100 and SPEO=100 after this record, and its
    # record has 110 and 110. The same state is the first full example below, with 100 and 100. With either
    # one, the state after offset 131 is the same.
    130: checkpoint(1, 110, 110),
    131: delta(1, (100, 109, 2, 1)),
    # "Note that the SPEO in the control records is 111 at this point": no record has it, since a delta has no
    # SPEO. It is the end of the runs, and the records from there on are in their first delivery.
    132: delta(1, (110, 110, 0, 1)),
    133: delta(1, (111, 118, 0, 0), (119, 119, 2, 1)),
    134: delta(1, (111, 112, 0, 1)),
    135: delta(1, (113, 118, 2, 1)),
    # The SPSO becomes 111, and 120 with the next one, but a delta of the design has no start offset. Replay
    # derives it from the runs; our deltas have it as a tagged field.
    136: delta(1, (110, 110, 2, 2)),
    137: delta(1, (111, 112, 2, 2)),
}
"""The worked example under "Examples with control records", by offset."""

ALTERNATIVE: Final = checkpoint(2, 120, 120)
"""The checkpoint that the design has for offset 137 instead of the delta."""

FULL: Final = {
    "start": checkpoint(1, 100, 100),
    # The epoch is 1, and the state is that after offset 134, so this is another history of the same state:
    # a checkpoint there would have epoch 2. Ours joins the neighbours 110 and 111-112, which are equal.
    "in delivery": checkpoint(
        1, 110, 121, (110, 110, 0, 1), (111, 112, 0, 1), (113, 118, 0, 0), (119, 119, 2, 1), (120, 120, 0, 0)
    ),
}
"""The two full examples of SHARE_CHECKPOINT."""

VECTORS: Final = {
    **{f"offset {number}": vector for number, vector in EXAMPLE.items()},
    "alternative at offset 137": ALTERNATIVE,
    **{f"full example, {name}": vector for name, vector in FULL.items()},
}


@pytest.mark.parametrize("name", VECTORS)
def test_control_record_of_the_design_has_these_bytes(name: str) -> None:
    record, expected = VECTORS[name]
    type_ = SHARE_CHECKPOINT if isinstance(record, ShareCheckpoint) else SHARE_DELTA
    encoded = encode(record)
    assert encoded == ControlRecord(type_, TIME, bytes.fromhex(expected))
    assert decode(encoded, TOPIC, 0).record == record


def test_a_checkpoint_has_the_speo() -> None:
    ends = {
        name: decode(encode(record), TOPIC, 0).end_offset
        for name, (record, _) in VECTORS.items()
        if isinstance(record, ShareCheckpoint)
    }
    assert ends == {
        "offset 130": 110,
        "alternative at offset 137": 120,
        "full example, start": 100,
        "full example, in delivery": 121,
    }


def replayed(example: dict[int, tuple[ShareRecord, str]]) -> tuple[int, dict[int, tuple[int, int]]]:
    """The SPSO, and state and delivery count by offset, that a leader loads after replay."""
    machine = ShareCoordinatorMachine(CheckpointRules())
    for position, (record, _) in example.items():
        machine.apply(record, position)
    reply = machine.decide(Inspect(KEY), 0.0).reply
    assert isinstance(reply, Inspection)
    state = reply.state
    assert state is not None
    core = SharePartition(SharePartitionSettings(), LoadedState(0, 0, state.start_offset, tuple(state.runs)))
    found = {
        each: (int(run.state), run.delivery_count)
        for run in core.in_flight.runs
        for each in range(run.first, run.last + 1)
    }
    return core.start_offset, found


AVAILABLE: Final = int(RecordState.AVAILABLE)
ACKNOWLEDGED: Final = int(RecordState.ACKNOWLEDGED)

BEFORE_TIMEOUT: Final = {
    110: (AVAILABLE, 1),
    **dict.fromkeys(range(111, 119), (AVAILABLE, 0)),
    119: (ACKNOWLEDGED, 1),
}
AFTER_TIMEOUT: Final = BEFORE_TIMEOUT | dict.fromkeys((111, 112), (AVAILABLE, 1))
AFTER_113: Final = AFTER_TIMEOUT | dict.fromkeys(range(113, 119), (ACKNOWLEDGED, 1))

CUMULATIVE: Final[dict[int, tuple[int, dict[int, tuple[int, int]]]]] = {
    # Acquired records are stored as available, with the delivery count before the delivery in flight.
    131: (110, {}),
    132: (110, {110: (AVAILABLE, 1)}),
    133: (110, BEFORE_TIMEOUT),
    134: (110, AFTER_TIMEOUT),
    135: (110, AFTER_113),
    136: (111, {each: state for each, state in AFTER_113.items() if each > 110}),
    137: (120, {}),
}
"""The column "Cumulative state" after each control record, as far as it is recorded."""


@pytest.mark.parametrize("last", CUMULATIVE)
def test_replay_of_the_example_gives_its_cumulative_state(last: int) -> None:
    records_so_far = {number: vector for number, vector in EXAMPLE.items() if number <= last}
    assert replayed(records_so_far) == CUMULATIVE[last]


@pytest.mark.parametrize("last", CUMULATIVE)
def test_replay_from_the_other_first_checkpoint_gives_the_same_state(last: int) -> None:
    example = {130: FULL["start"]} | {n: vector for n, vector in EXAMPLE.items() if 130 < n <= last}
    assert replayed(example) == CUMULATIVE[last]


def test_the_alternative_checkpoint_gives_the_same_state() -> None:
    assert replayed(EXAMPLE | {137: ALTERNATIVE}) == CUMULATIVE[137]


def test_the_full_example_is_the_state_after_the_lock_timeout() -> None:
    start, state = replayed({1: FULL["in delivery"]})
    assert (start, state) == (110, AFTER_TIMEOUT | {120: (AVAILABLE, 0)})


FAILED: Final = JournalUpdate((FailedRecords(3, 4, Disposition.REJECTED, 2, 7, "m", "r"),), 9, 1)
NOTES: Final = (
    batch(5, 5, 0)._replace(note=StateNote(77)),
    batch(6, 9),
    batch(10, 10, 0)._replace(note=StateNote(78, "@m", 5)),
    batch(11, 12, 3)._replace(note=StateNote(failure=FailureNote(Disposition.REJECTED, 7, "m", "r"))),
)
OURS: Final[dict[str, ShareRecord]] = {
    "every tagged field of a checkpoint": ShareCheckpoint(
        KEY, 3, 4, 5, 6, 7, TIME - 9, TIME, NOTES, FAILED, 2
    ),
    "every tagged field of a delta": ShareDelta(KEY, 511, 3, 5, 6, 7, NOTES, TIME, FAILED),
    "no start offset yet": ShareCheckpoint(KEY, 0, 1, 0, -1, -1, TIME, TIME, ()),
    "a deletion": CheckpointTombstone(KEY, TIME),
    "many runs": ShareCheckpoint(
        KEY, 0, 1, 0, 0, -1, TIME, TIME, tuple(batch(2 * each, 2 * each) for each in range(20_000))
    ),
}


@pytest.mark.parametrize("name", OURS)
def test_our_additions_are_read_unchanged(name: str) -> None:
    record = OURS[name]
    assert decode(encode(record), TOPIC, 0).record == record


def test_our_additions_follow_the_fields_of_the_design() -> None:
    """A reader of the design's fields finds them at the same places."""
    plain, _ = EXAMPLE[132]
    assert isinstance(plain, ShareDelta)
    tagged = encode(plain._replace(delta_index=2, start_offset=110)).value
    assert tagged.startswith(encode(plain).value[:-1])
    assert tagged[-17:].hex(" ") == "02 08 08 00 00 00 00 00 00 00 6e 09 04 00 00 00 02"


def test_the_tombstone_of_a_delta_has_no_control_record() -> None:
    with pytest.raises(ValueError, match="has no control record"):
        encode(DeltaTombstone(KEY, 1))


@given(records)
def test_records_are_read_unchanged(record: ShareRecord) -> None:
    assume(not isinstance(record, DeltaTombstone))
    if isinstance(record, ShareCheckpoint | ShareDelta):  # the share coordinator accepts 16 bits
        counted = [each._replace(delivery_count=each.delivery_count % 2**15) for each in record.state_batches]
        record = record._replace(state_batches=tuple(counted))
    key: Any = record.key
    assert decode(encode(record), key.topic_id, key.partition).record == record


WHOLE: Final = encode(OURS["every tagged field of a checkpoint"])


@pytest.mark.parametrize("size", range(len(WHOLE.value)))
def test_a_part_of_a_control_record_is_rejected(size: int) -> None:
    with pytest.raises(ValueError, match="not a control record"):
        decode(WHOLE._replace(value=WHOLE.value[:size]), TOPIC, 0)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (WHOLE.value + b"\x00", "Bytes follow"),
        (b"\x00\x01" + WHOLE.value[2:], "version 1"),
        (bytes.fromhex("0000 00"), "null"),
        (bytes.fromhex(f"0000 {GROUP} 00000001 {offset(0)} {offset(0)} 00 00"), "null"),
        (bytes.fromhex(f"0000 {GROUP} 00000001 {offset(0)} {offset(0)} 02 {'00' * 19} 01 00"), "tagged"),
        (bytes.fromhex(f"0000 {GROUP} 00000001 {offset(0)} {offset(0)} 01 01 05 03 00 01 00"), "index"),
    ],
)
def test_a_damaged_control_record_is_rejected(value: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode(ControlRecord(SHARE_CHECKPOINT, TIME, value), TOPIC, 0)


def test_an_unknown_tagged_field_is_ignored() -> None:
    record, plain = EXAMPLE[132]
    value = bytes.fromhex(plain)[:-1] + bytes.fromhex("01 7f 02 abcd")
    assert decode(ControlRecord(SHARE_DELTA, TIME, value), TOPIC, 0).record == record
