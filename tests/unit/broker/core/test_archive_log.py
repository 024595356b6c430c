"""The snapshots of an archive, and the end of an imported log."""

from __future__ import annotations

from sharebroker_server.broker.core.archive_log import archived_snapshots, end_log
from sharebroker_server.record_log.core.addressed import CopyAddress, note_of
from sharebroker_server.record_log.core.batch import header_of
from sharebroker_server.record_log.core.notes import Notes
from sharebroker_server.record_log.core.producers import ProducerState, SentBatch
from sharebroker_server.record_log.core.schedules import Scheduled, Schedules
from sharebroker_server.record_log.core.snapshots import load_snapshots, snapshots_of
from sharebroker_server.record_log.core.transactions import AbortedTransaction, Transactions, commits

SENT = (SentBatch(0, 4, 10, 14, 1000),)
PRODUCERS = {
    1: ProducerState(3, SENT, 1000),
    2: ProducerState(0, SENT, 1000, transaction_start=12),
    3: ProducerState(7, SENT, 1000, transaction_start=10, coordinator_epoch=5),
}


def stored(producers: dict[int, ProducerState]) -> dict[str, bytes]:
    aborted = [AbortedTransaction(9, 1, 3, 4)]
    notes = Notes(note_of([2], 5, CopyAddress("g", "r")))
    return snapshots_of(Transactions(producers, aborted, Schedules([Scheduled(6, 8, 9_000)], [7]), notes))


def test_only_producers_with_an_open_transaction_are_archived() -> None:
    found = load_snapshots(archived_snapshots(stored(PRODUCERS)))
    assert found.producers.keys() == {2, 3}
    assert archived_snapshots(stored({})) == stored({})


def test_open_transactions_are_aborted_in_the_order_of_their_starts() -> None:
    markers, snapshots = end_log(archived_snapshots(stored(PRODUCERS)), 20, 5_000)
    assert [marker.base_offset for marker in markers] == [20, 21]
    assert [header_of(marker.data).producer_id for marker in markers] == [3, 2]
    assert not any(map(commits, markers))
    found = load_snapshots(snapshots)
    assert found.first_unstable_offset() is None
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in found.aborted] == [
        (9, 1, 3),
        (3, 10, 20),
        (2, 12, 21),
    ]


def test_an_imported_log_has_the_other_snapshots_and_no_producers() -> None:
    markers, snapshots = end_log(stored({}), 20, 5_000)
    assert (markers, snapshots) == ([], stored({}))
    assert end_log(stored({1: PRODUCERS[1]}), 20, 5_000).snapshots == stored({})
