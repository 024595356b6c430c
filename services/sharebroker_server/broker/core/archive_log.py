"""What an archive has of the snapshots beside a log, and how an import completes the log.

The state of producers is left out: in another cluster the id of a producer may be that of another producer. A
transaction that was open is aborted at the end of the imported log, because no coordinator there can end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sharebroker_server.record_log.core.batch import LEADER_EPOCH, StoredBatch
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.snapshots import PRODUCER_NAME, load_snapshots, snapshots_of
from sharebroker_server.record_log.core.transactions import marker_batch


class EndedLog(NamedTuple):
    """The batches after those of the archive, and the snapshots to store with them."""

    markers: Sequence[StoredBatch]
    snapshots: Mapping[str, bytes]


def archived_snapshots(snapshots: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the snapshots that belong into an archive. Raises ValueError for an unknown format."""
    producers = load_snapshots(snapshots).producers
    return {
        name: snapshot
        for name, snapshot in snapshots.items()
        if not name.startswith(PRODUCER_NAME) or producers[int(name[1:])].in_transaction
    }


def end_log(snapshots: Mapping[str, bytes], log_end: int, now_ms: int) -> EndedLog:
    """Returns how a log ends whose archived part ends at `log_end`.

    Raises ValueError for an unknown format.
    """
    transactions = load_snapshots(snapshots)
    draft = transactions.draft()
    markers: list[StoredBatch] = []
    opened = [
        (state.transaction_start, id_)
        for id_, state in transactions.producers.items()
        if state.in_transaction
    ]
    for _, producer_id in sorted(opened):
        state = transactions.producers[producer_id]
        marker = Marker(producer_id, state.epoch, max(state.coordinator_epoch, 0), commit=False)
        offset = log_end + len(markers)
        markers.append(marker_batch(marker, offset, LEADER_EPOCH, now_ms))
        draft.end(marker, offset, now_ms)
    transactions.commit(draft)
    stored = snapshots_of(transactions)
    kept = {name: snapshot for name, snapshot in stored.items() if not name.startswith(PRODUCER_NAME)}
    return EndedLog(markers, kept)
