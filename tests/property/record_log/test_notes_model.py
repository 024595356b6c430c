"""Appends with notes under faults: the durable records and notes equal those of a naive model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.record_log.appends import Noted
from sharebroker_server.record_log.core.batch import parse_headers
from sharebroker_server.record_log.core.notes import Note, NotesDraft
from sharebroker_server.record_log.partition_log import PartitionLog
from tests.support.lease import Lease
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import LIMIT, batch
from tests.unit.record_log.harness import NAME, until_open

BATCHES = {count: batch(count) for count in range(1, 4)}
FAULTS = [None, None, None, Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN]
keys = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.just("count"), keys, st.integers(0, 3)),
    st.tuples(st.just("attach"), keys, st.integers(1, 3)),
    st.tuples(st.just("plain"), keys, st.integers(1, 3)),
    st.tuples(st.just("remove"), keys, st.just(0)),
    st.tuples(st.just("trim"), keys, st.integers(0, 9)),
    st.tuples(st.just("reopen"), keys, st.just(0)),
    st.tuples(st.just("lose"), keys, st.just(0)),
)


@dataclass
class Model:
    """The end of the log, a counter per key, and the attached notes by base offset."""

    end: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    attached: dict[int, int] = field(default_factory=dict)

    def append(self, kind: str, key: str, count: int) -> None:
        if kind == "count":
            self.counters[key] = self.counters.get(key, 0) + count
        elif kind == "attach":
            self.attached[self.end] = self.end + count - 1
        self.end += count

    def trim(self, before: int) -> None:
        self.attached = {first: last for first, last in self.attached.items() if last >= before}

    def notes(self) -> dict[str, tuple[bytes, int, int]]:
        return {key: (str(value).encode(), -1, -1) for key, value in self.counters.items()} | {
            f"to:{first}": (b"", first, last) for first, last in self.attached.items()
        }


async def append(log: PartitionLog, kind: str, key: str, count: int) -> None:
    data = BATCHES.get(count, b"")
    headers = parse_headers(data, LIMIT) if data else []

    def noted(notes: NotesDraft, base: int) -> Noted:
        if kind == "attach":
            return Noted(data, headers, {f"to:{base}": Note(b"", base, base + count - 1)})
        note = notes.get(key)
        total = count + (0 if note is None else int(note.value))
        return Noted(data, headers, {key: Note(str(total).encode())})

    if kind == "plain":
        await log.append(data)
    else:
        await log.append_noted(noted, len(data))


def found(log: PartitionLog) -> dict[str, tuple[bytes, int, int]]:
    return {key: note[:3] for key, note in log.transactions.notes.items()}


@given(st.lists(st.tuples(steps, st.sampled_from(FAULTS)), max_size=25))
def test_notes_equal_a_naive_model(history: list[tuple[tuple[str, str, int], Fault | None]]) -> None:
    asyncio.run(play(history))


async def play(history: list[tuple[tuple[str, str, int], Fault | None]]) -> None:
    lease = Lease()
    store = MemoryRecordStore(epoch_of=lambda _: lease.epoch)
    model = Model()
    log = await PartitionLog.open(NAME, lease.epoch, store, lease)
    for (kind, key, count), fault in history:
        if kind == "remove":
            await log.remove_notes([key])
            model.counters.pop(key, None)
        elif kind == "trim":
            if count <= log.log_end_offset:
                await log.delete_records(count)
                model.trim(log.log_start_offset)
        elif kind == "reopen":
            await log.close()
            log = await PartitionLog.open(NAME, lease.epoch, store, lease)
        elif kind == "lose":
            await store.delete(NAME)
            await log.recheck()
            await until_open(log)
            await log.delete_records(log.log_start_offset)
        else:
            if fault is not None:
                store.fail_next_append(fault)
            try:
                await append(log, kind, key, count)
            except KafkaError:
                assert fault is not None
            if fault in (None, Fault.DONE_UNKNOWN):
                model.append(kind, key, count)
            await until_open(log)
        assert (log.log_end_offset, found(log)) == (model.end, model.notes())
    again = await PartitionLog.open(NAME, lease.epoch, store, lease)
    assert (again.log_end_offset, found(again)) == (model.end, model.notes())
