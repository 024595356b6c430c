"""The deadline of a reply."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharebroker_server.redis_link.port import RedisOutcomeUnknown, RedisRefused, lua, within


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


async def test_reply_before_the_deadline_is_returned() -> None:
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reply.set_result(7)
    assert await within(1.0, reply) == 7


async def test_a_late_reply_has_an_unknown_outcome() -> None:
    with pytest.raises(RedisOutcomeUnknown, match="no reply from Redis within"):
        await within(0.0, asyncio.get_running_loop().create_future())


def test_script_files_are_concatenated_below_the_flags(tmp_path: Path) -> None:
    (tmp_path / "a.lua").write_text("local a = 1\n")
    (tmp_path / "b.lua").write_text("return a\n")
    assert lua(tmp_path, "a", "b") == "#!lua\nlocal a = 1\nreturn a\n"
    assert lua(tmp_path, "b", flags="allow-oom") == "#!lua flags=allow-oom\nreturn a\n"
