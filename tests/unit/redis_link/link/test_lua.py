"""Assembly of Lua scripts."""

from __future__ import annotations

from pathlib import Path

from sharebroker_server.redis_link.link.lua import lua


def test_files_are_joined_in_order_below_the_flags(tmp_path: Path) -> None:
    (tmp_path / "a.lua").write_text("local a = 1\n")
    (tmp_path / "b.lua").write_text("return a\n")
    assert lua(tmp_path, "a", "b") == "#!lua\nlocal a = 1\nreturn a\n"
    assert lua(tmp_path, "b", flags="allow-oom") == "#!lua flags=allow-oom\nreturn a\n"
