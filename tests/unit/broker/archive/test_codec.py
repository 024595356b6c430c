"""The metadata of an archive as JSON lines."""

from __future__ import annotations

import orjson
import pytest

from sharebroker_protocol.model import (
    FailedRecords,
    FailureNote,
    JournalUpdate,
    StateBatch,
    StateNote,
)
from sharebroker_server.broker.archive.codec import decode_records, encode_records
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_selection import ArchiveRecord
from tests.unit.broker.core.archives import SETTING, TOPICS, committed, share_group, state

LOCK = StateNote(9_000, "/User:x@m", 7)
FAILURE = StateNote(failure=FailureNote(2, 8_000, "m", "why"))
JOURNAL = JournalUpdate((FailedRecords(1, 2, 3, 4, 5, "m", "r"),), 100, 6, complete=True)
NOTED = state()._replace(
    state_batches=(StateBatch(5, 5, 0, 1, LOCK), StateBatch(6, 8, 3, 2, FAILURE)), failed=JOURNAL
)
MANY = state()._replace(
    start_offset=0,
    state_batches=tuple(
        StateBatch(2 * n, 2 * n, 2 * (n % 3), n % 2, LOCK if n % 6 == 0 else None) for n in range(300)
    ),
)
"""A state whose stored form has zeros, which is read by columns."""
RECORDS: list[ArchiveRecord] = [*TOPICS, SETTING, *share_group(), committed(), NOTED, MANY]  # type: ignore[list-item]


def test_records_are_read_as_they_were_written() -> None:
    assert list(decode_records(encode_records(RECORDS))) == RECORDS


def test_lines_have_the_fields_of_the_stored_messages() -> None:
    line = orjson.loads(encode_records([NOTED]))
    assert line["share_state"]["key"] == {"group_id": "g", "topic_id": "orders" + "A" * 16}
    assert line["share_state"]["checkpoint"]["state_batches"][0]["note"]["holder"] == "/User:x@m"


@pytest.mark.parametrize(
    "data", [b"x\n", b"{}\n", b"[]\n", b'{"other": {}}\n', b'{"group": {"none": 1}}\n', b'{"catalog": {}}\n']
)
def test_a_damaged_line_is_an_error(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="invalid line"):
        list(decode_records(data))
