"""Lua scripts put together from files."""

from __future__ import annotations

from pathlib import Path


def lua(folder: Path, *names: str, flags: str = "") -> str:
    """The script made of the named .lua files of a folder, in order.

    The first line declares `flags`. Without any, Redis refuses the script before its first line when memory
    or disk is full; "allow-oom" lets it write all the same, "no-writes" lets it run where only reading may.
    """
    parts = [(folder / f"{name}.lua").read_text(encoding="utf-8") for name in names]
    return "".join([f"#!lua flags={flags}\n" if flags else "#!lua\n", *parts])
