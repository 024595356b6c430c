"""Errors of Redis."""

from __future__ import annotations

import pytest

from sharebroker_server.redis_link.link.errors import RedisRefused


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("FENCED by 7", "FENCED", "by 7"),
        ("OOM", "OOM", ""),
        ("ERR unknown command", "ERR", "unknown command"),
    ],
)
def test_error_lines_have_a_code_and_a_text(line: str, code: str, text: str) -> None:
    error = RedisRefused.from_reply(line)
    assert (error.code, error.text, str(error)) == (code, text, line)
