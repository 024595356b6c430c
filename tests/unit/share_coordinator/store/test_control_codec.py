"""Control records and their places in the index."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.share_index import CHECKPOINT_SLOT
from sharebroker_server.share_coordinator.core.state import CheckpointTombstone, ShareDelta, ShareRecord
from sharebroker_server.share_coordinator.store.control_codec import ControlPayload, ControlRecordCodec
from sharebroker_server.share_coordinator.store.control_format import encode
from tests.unit.share_coordinator.harness import KEY, TOPIC
from tests.unit.share_coordinator.store.test_control_format import OURS, TIME

CODEC = ControlRecordCodec(TOPIC, 0)


@pytest.mark.parametrize(
    ("record", "slot", "deleted"),
    [
        (OURS["every tagged field of a checkpoint"], CHECKPOINT_SLOT, False),
        (ShareDelta(KEY, 17, 3, -1, -1, -1, (), TIME), 17, False),
        (CheckpointTombstone(KEY, TIME), CHECKPOINT_SLOT, True),
    ],
)
def test_a_payload_has_the_value_and_the_place_of_its_record(
    record: ShareRecord, slot: int, deleted: bool
) -> None:
    payload = CODEC.encode(record)
    assert payload == encode(record).value
    assert payload.record == (encode(record), "G1", slot, deleted)
    assert CODEC.decode(payload) == CODEC.decode(ControlPayload.of_stored(encode(record))) == record
