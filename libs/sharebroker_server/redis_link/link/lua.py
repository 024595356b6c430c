"""Lua scripts assembled from files."""

from __future__ import annotations

from pathlib import Path


def lua(folder: Path, *names: str, flags: str = "") -> str:
    """Returns the concatenation of the named .lua files of a folder.

    The first line declares `flags`. Without flags, Redis rejects the script before its first line when memory
    or disk is full. "allow-oom" permits its writes even then; "no-writes" permits the script on a read-only
    server.
    """
    parts = [(folder / f"{name}.lua").read_text(encoding="utf-8") for name in names]
    return "".join([f"#!lua flags={flags}\n" if flags else "#!lua\n", *parts])
