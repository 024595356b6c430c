"""Reads stored records of dead letters, as a program of its own that may import an earlier release.

Standard input is a JSON object: `states` are payloads of share state records, `notes` snapshots of a
partition by name, both in hexadecimal. Prints what was read, and the errors.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from sharebroker_server.share_coordinator.core.state import ShareCheckpoint, ShareDelta
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from sharebroker_server.share_partition_leader.core.events import LoadedState, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition

try:
    from sharebroker_server.record_log.core.snapshots import load_snapshots
except ImportError:  # an earlier release
    from sharebroker_server.record_log.core.transactions import (  # type: ignore[no-redef,attr-defined]
        load_snapshots,
    )


def main() -> None:
    """Prints a JSON object: the batches of each state and the error of its load, and that of the notes."""
    stored = json.load(sys.stdin)
    states = [_state(bytes.fromhex(payload)) for payload in stored["states"]]
    notes = {name: bytes.fromhex(note) for name, note in stored["notes"].items()}
    json.dump({"states": states, "notes": _error_of(lambda: load_snapshots(notes))}, sys.stdout)


def _state(payload: bytes) -> tuple[list[tuple[int, ...]], str]:
    record = ShareRecordCodec().decode(payload)
    assert isinstance(record, ShareCheckpoint | ShareDelta)
    batches = record.state_batches
    loaded = LoadedState(1, 1, 0, batches)
    error = _error_of(lambda: SharePartition(SharePartitionSettings(), loaded))
    return [tuple(map(int, batch[:4])) for batch in batches], error


def _error_of(read: Callable[[], Any]) -> str:
    """Returns the text of a ValueError, "" without one."""
    try:
        read()
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
