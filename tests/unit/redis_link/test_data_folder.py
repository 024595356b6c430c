"""Permissions of a data folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sharebroker_server.redis_link.data_folder import make_private
from sharebroker_server.redis_link.port import EmbeddedRedisFailed


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    with capture_logs() as lines:
        make_private(tmp_path / "data")
    assert mode(tmp_path / "data") == 0o700
    assert not lines


def test_access_to_an_old_folder_is_removed_and_logged_once(tmp_path: Path) -> None:
    below = tmp_path / "valkey" / "appendonlydir"
    below.mkdir(parents=True)
    (below / "appendonly.aof").write_text("")
    for path in (below / "appendonly.aof", below, below.parent, tmp_path):
        path.chmod(0o644 if path.is_file() else 0o755)
    with capture_logs() as lines:
        make_private(tmp_path)
        make_private(tmp_path)
    assert [mode(path) for path in (tmp_path, below.parent, below)] == [0o700] * 3
    assert mode(below / "appendonly.aof") == 0o600
    assert [(line["event"], line["paths"]) for line in lines] == [
        ("data folder was accessible to other users; access removed", 4)
    ]


def test_only_the_named_entries_change(tmp_path: Path) -> None:
    for name in ("node.json", "program"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    make_private(tmp_path, names=("node.json", "missing"))
    assert mode(tmp_path / "node.json") == 0o600
    assert mode(tmp_path / "program") == 0o755


def test_targets_of_symbolic_links_do_not_change(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "elsewhere").chmod(0o644)
    make_private(tmp_path / "data")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "elsewhere")
    make_private(tmp_path / "data")
    assert mode(tmp_path / "elsewhere") == 0o644


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    owner, someone = os.geteuid(), 4_000_000_000  # a number without a name
    monkeypatch.setattr(os, "geteuid", lambda: someone)
    with pytest.raises(
        EmbeddedRedisFailed, match=rf"belongs to the user .*: run as .* or make {someone} its"
    ):
        make_private(tmp_path)
    assert mode(tmp_path) == 0o755
    assert tmp_path.stat().st_uid == owner


def test_a_folder_shared_by_all_users_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(EmbeddedRedisFailed, match="is shared by all users: name a folder below it"):
        make_private(tmp_path)
    assert mode(tmp_path) == 0o1777


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(EmbeddedRedisFailed, match="cannot be used: File exists"):
        make_private(tmp_path / "data")
