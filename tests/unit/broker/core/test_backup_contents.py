"""The list of the files of a backup."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.broker.core.backup_contents import VERSION, BackupContents, BackupError
from sharebroker_server.broker.core.listed_files import ListedFile
from tests.testkit.tables import each

FILES = st.builds(
    ListedFile,
    st.sampled_from(["node.json", "format.json", "valkey/appendonlydir/appendonly.aof.1.incr.aof"]),
    st.integers(0, 1 << 40),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
)
CONTENTS = st.builds(BackupContents, st.lists(FILES), st.text("0123456789.", min_size=1), st.floats(0, 1e10))


@given(CONTENTS)
def test_stored_contents_are_read_back(contents: BackupContents) -> None:
    assert BackupContents.parse(contents.to_json()) == contents
    assert contents.size == sum(file.size for file in contents.files)


FILE = {"name": "node.json", "size": 1, "sha256": "0" * 64}
WHOLE: dict[str, Any] = {"version": VERSION, "release": "0.1.0", "taken_at": 1.0, "files": [FILE]}


@each(
    "fields",
    [
        {"files": [FILE | {"name": "../node.json"}]},
        {"files": [FILE | {"name": "/etc/passwd"}]},
        {"files": [FILE | {"name": "valkey/appendonlydir/appendonly.aof.../../x"}]},
        {"files": [FILE | {"size": -1}]},
        {"files": [FILE | {"size": "1"}]},
        {"files": [FILE | {"sha256": "0"}]},
        {"files": [FILE | {"sha256": None}]},
        {"files": [7]},
        {"files": None},
        {"taken_at": "now"},
    ],
)
def test_damaged_contents_are_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(BackupError, match="is damaged"):
        BackupContents.parse(orjson.dumps(WHOLE | fields))


@each("data", [b"", b"[]", b"{}", b"7", b"\xff"])
def test_other_files_are_rejected(data: bytes) -> None:
    with pytest.raises(BackupError, match="is damaged"):
        BackupContents.parse(data)


def test_a_newer_version_is_rejected_with_the_release_that_wrote_it() -> None:
    newer = WHOLE | {"version": VERSION + 1, "release": "9.1.0"}
    with pytest.raises(BackupError, match=r"version 2, written by release 9\.1\.0\..* reads version 1"):
        BackupContents.parse(orjson.dumps(newer))
