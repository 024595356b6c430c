"""Which append-only files are the data, and that an open view of them does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.redis_link.append_only import APPEND_ONLY, MANIFEST, Manifest, open_append_only
from sharebroker_server.redis_link.port import EmbeddedRedisFailed
from tests.testkit.tables import each

BASE = "file appendonly.aof.2.base.rdb seq 2 type b"
OLD = "file appendonly.aof.1.base.rdb seq 1 type h"
FIRST = "file appendonly.aof.2.incr.aof seq 2 type i"
NEWEST = "file appendonly.aof.3.incr.aof seq 3 type i startoffset 0"


def test_a_manifest_leaves_out_files_of_earlier_generations() -> None:
    manifest = Manifest.parse("\n".join([BASE, OLD, FIRST, NEWEST]))
    assert manifest.names == [
        "appendonly.aof.2.base.rdb",
        "appendonly.aof.2.incr.aof",
        "appendonly.aof.3.incr.aof",
    ]
    assert str(manifest) == f"{BASE}\n{FIRST}\n{NEWEST}\n"
    assert Manifest.parse(str(manifest)) == manifest


@each("text", ["", OLD, "file ../node.json seq 1 type b", "file a.base.rdb seq 1 type b", f"{BASE}\nother"])
def test_an_invalid_manifest_is_rejected(text: str) -> None:
    with pytest.raises(EmbeddedRedisFailed, match="manifest"):
        Manifest.parse(text)


def written(folder: Path, **files: bytes) -> Path:
    """Writes a manifest with a base file and a file of commands; returns their folder."""
    place = folder / APPEND_ONLY
    place.mkdir(exist_ok=True)
    (place / MANIFEST).write_text(f"{BASE}\n{FIRST}\n")
    for kind, content in files.items():
        (place / f"appendonly.aof.2.{kind.replace('_', '.')}").write_bytes(content)
    return place


def test_open_files_do_not_change_when_they_grow_or_are_deleted(tmp_path: Path) -> None:
    place = written(tmp_path, base_rdb=b"base", incr_aof=b"one")
    with open_append_only(tmp_path) as (_, files):
        with (place / "appendonly.aof.2.incr.aof").open("ab") as newest:
            newest.write(b"two")
        (place / "appendonly.aof.2.base.rdb").unlink()
        assert [file.content.read(file.size) for file in files] == [b"base", b"one"]


def test_a_rewrite_while_files_are_opened_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = written(tmp_path, base_rdb=b"base", incr_aof=b"one")
    opened = Path.open

    def rewritten(path: Path, mode: str = "r", **rest: object) -> object:
        if path.name == "appendonly.aof.2.incr.aof" and (place / "appendonly.aof.2.base.rdb").exists():
            (place / "appendonly.aof.4.base.rdb").write_bytes(b"all")
            (place / MANIFEST).write_text("file appendonly.aof.4.base.rdb seq 4 type b\n")
            (place / "appendonly.aof.2.base.rdb").unlink()
        return opened(path, mode, **rest)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", rewritten)
    with open_append_only(tmp_path) as (manifest, files):
        assert manifest.names == ["appendonly.aof.4.base.rdb"]
        assert [file.content.read(file.size) for file in files] == [b"all"]


def test_a_folder_without_data_and_a_missing_file_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedRedisFailed, match="has no data"), open_append_only(tmp_path):
        pass
    written(tmp_path, base_rdb=b"base")
    with pytest.raises(EmbeddedRedisFailed, match="do not exist"), open_append_only(tmp_path):
        pass
