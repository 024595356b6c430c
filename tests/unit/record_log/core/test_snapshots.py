"""The stored form of producers, transactions, schedules and notes."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.notes import Note, Notes
from sharebroker_server.record_log.core.producers import ProducerState, SentBatch
from sharebroker_server.record_log.core.schedules import Scheduled, Schedules
from sharebroker_server.record_log.core.snapshots import (
    load_snapshots,
    lost_snapshots,
    snapshot_names,
    snapshots_of,
)
from sharebroker_server.record_log.core.transactions import DUPLICATES, AbortedTransaction, Transactions

ABORTED = AbortedTransaction(7, 0, 4, 5)
REPEATED = AbortedTransaction(DUPLICATES, 10, 12, 13)


def producer(sequence: int = 1, time: int = 1000) -> ProducerState:
    return ProducerState(0, (SentBatch(0, sequence, 2, 2 + sequence, time),), time, 2)


def transactions(sent: ProducerState, version: int = 1) -> Transactions:
    notes = Notes({"to:é": Note(b"value", 20, 21, version)})
    schedules = Schedules([Scheduled(6, 8, 9_000)], [7])
    return Transactions({5: sent}, [ABORTED, REPEATED], schedules, notes)


def test_all_kinds_of_snapshots_survive_storage() -> None:
    stored = snapshots_of(transactions(producer()))
    assert sorted(stored) == ["a12", "a4", "nto:é", "p5", "r7", "s8"]
    again = load_snapshots(stored)
    assert again.producers == {5: producer()}
    assert (again.aborted, again.duplicates) == ([ABORTED], [REPEATED])
    assert (list(again.scheduled), list(again.recalled)) == ([Scheduled(6, 8, 9_000)], [7])
    assert again.notes.get("to:é") == Note(b"value", 20, 21, 1)
    assert again.first_unstable_offset() == 2


def test_snapshots_are_stored_under_the_names_for_their_removal() -> None:
    state = transactions(producer())
    names = snapshot_names([5], [ABORTED, REPEATED], state.scheduled, state.recalled, ["to:é"])
    assert sorted(names) == sorted(snapshots_of(state))


@pytest.mark.parametrize("name", ["p7", "a7", "s7", "r7"])
def test_a_snapshot_of_an_unknown_format_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has unknown format 9"):
        load_snapshots({name: b"\x09"})


def test_only_absent_and_earlier_snapshots_count_as_lost() -> None:
    state = transactions(producer(2, 2000), version=2)
    stored = snapshots_of(state)
    assert lost_snapshots(state, stored) == {}
    earlier = snapshots_of(transactions(producer()))
    assert lost_snapshots(state, earlier).keys() == {"p5", "nto:é"}
    assert lost_snapshots(transactions(producer()), stored) == {}
    assert lost_snapshots(state, {name: each for name, each in stored.items() if name != "s8"}).keys() == {
        "s8"
    }
