"""Text files, and why one cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.kafka_client.files import LARGEST_FILE, file_text


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a" * LARGEST_FILE)
    assert len(file_text(path)) == LARGEST_FILE


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"\xff", "UTF-8"), (b"a" * (LARGEST_FILE + 1), "more than")],
)
def test_an_unreadable_file_has_a_reason(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "a"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        file_text(path)
