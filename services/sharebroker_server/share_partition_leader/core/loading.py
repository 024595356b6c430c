"""From persisted state to the window in memory: where a leader begins."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import RecordState
from sharebroker_server.share_partition_leader.core.in_flight import ACQUIRED, AVAILABLE, Batch, InFlight, Run
from sharebroker_server.share_partition_leader.core.values import LoadedState


def load(loaded: LoadedState) -> InFlight:
    """Build the window from persisted state.

    A hole before or between its batches was fetched but never acknowledged: its records are acquirable at
    their first attempt, and the SPSO stops there.
    """
    in_flight = InFlight(loaded.start_offset)
    expected = loaded.start_offset
    for batch in loaded.batches:
        state = RecordState(batch.state)
        if batch.first < expected or batch.last < batch.first or state is ACQUIRED:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the persisted state is not in order at {batch}"
            )
        if batch.first > expected:
            in_flight.append(Run(expected, batch.first - 1, AVAILABLE, 0, None))
        unit = Batch(batch.first, batch.last)
        in_flight.append(Run(batch.first, batch.last, state, batch.delivery_count, unit))
        if state is not AVAILABLE:
            in_flight.complete_count += batch.last - batch.first + 1
        expected = batch.last + 1
    in_flight.mark_available(loaded.start_offset)
    in_flight.advance()
    return in_flight
