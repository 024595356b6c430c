"""The embedded server: it keeps data over restarts, locks its folder, and ends with its process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from sharebroker_server.redis_link.embedded import EmbeddedRedis
from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.redis_link.port import (
    DataDirectoryInUse,
    EmbeddedRedisFailed,
    RedisOutcomeUnknown,
    RedisRefused,
    RedisTooOld,
    RedisUnavailable,
)
from tests.testkit.servers import binaries
from tests.testkit.waiting import eventually


@pytest.fixture(params=sorted(binaries()))
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
async def embedded(kind: str, tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    embedded = EmbeddedRedis(tmp_path / "data", binary=binaries()[kind])
    await embedded.start()
    yield embedded
    await embedded.stop()


@pytest.fixture
async def link(embedded: EmbeddedRedis) -> AsyncIterator[RedisLink]:
    link = await RedisLink.connect(embedded.url)
    yield link
    await link.close()


async def setting(link: RedisLink, name: str) -> str:
    reply: list[bytes] = await link.call("CONFIG", "GET", name, timeout=5.0)
    return reply[1].decode()


async def test_server_is_durable_and_unreachable_from_outside(link: RedisLink) -> None:
    assert await setting(link, "appendonly") == "yes"
    assert await setting(link, "appendfsync") == "always"
    assert await setting(link, "maxmemory-policy") == "noeviction"
    assert await setting(link, "save") == ""
    assert await setting(link, "rdbcompression") == "no"
    assert await setting(link, "auto-aof-rewrite-percentage") == "50"
    assert await setting(link, "port") == "0"
    assert await setting(link, "unixsocketperm") == "600"


def accessible(folder: Path) -> list[str]:
    """Returns what other users can access."""
    paths = (folder, *folder.rglob("*"))
    return [str(path.relative_to(folder)) for path in paths if path.lstat().st_mode & 0o077]


async def test_only_its_owner_can_access_a_new_folder(
    embedded: EmbeddedRedis, link: RedisLink, tmp_path: Path
) -> None:
    await link.call("SET", "k", 1, timeout=5.0)
    await link.call("BGREWRITEAOF", timeout=5.0)
    appended = tmp_path / "data" / "appendonlydir"
    # The files of the first generation are deleted last.
    await eventually(
        lambda: {path.name.split(".")[2] for path in appended.glob("appendonly.aof.?.*")} == {"2"}
    )
    assert accessible(tmp_path / "data") == []


async def test_only_its_owner_can_access_an_old_folder(kind: str, tmp_path: Path) -> None:
    for _ in range(2):
        embedded = EmbeddedRedis(tmp_path / "data", binary=binaries()[kind])
        await embedded.start()
        link = await RedisLink.connect(embedded.url)
        await link.call("INCR", "n", timeout=5.0)
        assert accessible(tmp_path / "data") == []
        await link.close()
        await embedded.stop()
        for path in ((tmp_path / "data"), *(tmp_path / "data").rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert len(accessible(tmp_path / "data")) > 3


@pytest.mark.parametrize("fsync", ["always", "everysec"])
async def test_data_survives_a_stop_and_start(
    kind: str, tmp_path: Path, fsync: Literal["always", "everysec"]
) -> None:
    for round_number in range(3):
        embedded = EmbeddedRedis(tmp_path, fsync=fsync, binary=binaries()[kind], max_memory=1 << 30)
        await embedded.start()
        link = await RedisLink.connect(embedded.url)
        assert await link.call("INCR", "n", timeout=5.0) == round_number + 1
        assert await setting(link, "appendfsync") == fsync
        assert await setting(link, "maxmemory") == str(1 << 30)
        await link.close()
        await embedded.stop()
        assert embedded.pid is None


async def test_default_program_is_the_wheels_valkey(tmp_path: Path) -> None:
    embedded = EmbeddedRedis(tmp_path)
    await embedded.start()
    link = await RedisLink.connect(embedded.url)
    assert link.server.product == "valkey"
    await link.close()
    await embedded.stop()


async def test_a_killed_server_restarts_with_acknowledged_writes(
    embedded: EmbeddedRedis, link: RedisLink
) -> None:
    assert await link.call("INCR", "n", timeout=5.0) == 1
    first = embedded.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: not link.connected)
    with pytest.raises((RedisUnavailable, RedisOutcomeUnknown)):
        await link.call("INCR", "n", timeout=5.0)
    await link.ready(10.0)
    assert await link.call("GET", "n", timeout=5.0) == b"1"
    assert embedded.pid != first


async def test_used_folder_is_reported_with_its_process(embedded: EmbeddedRedis, tmp_path: Path) -> None:
    second = EmbeddedRedis(tmp_path / "data")
    with pytest.raises(DataDirectoryInUse, match=rf"data is in use by another process \({os.getpid()}\)$"):
        await second.start()
    await second.stop()  # harmless


async def test_writes_are_rejected_while_the_disk_is_nearly_full(
    embedded: EmbeddedRedis, link: RedisLink
) -> None:
    async def limit_is(limit: str) -> bool:
        return await setting(link, "maxmemory") == limit

    await link.call("SET", "kept", 1, timeout=5.0)
    embedded.disk_reserve = 1 << 62
    await eventually(lambda: limit_is("1"))
    with pytest.raises(RedisRefused, match="OOM"):
        await link.call("SET", "k", 1, timeout=5.0)
    assert await link.call("GET", "kept", timeout=5.0) == b"1"
    embedded.disk_reserve = 0
    await eventually(lambda: limit_is("0"))
    assert await link.call("SET", "k", 1, timeout=5.0) == b"OK"


async def test_socket_is_moved_if_the_data_folders_path_is_long(tmp_path: Path) -> None:
    embedded = EmbeddedRedis(tmp_path / ("long" * 40))
    await embedded.start()
    socket = Path(embedded.url.removeprefix("unix://"))
    link = await RedisLink.connect(embedded.url)
    await link.close()
    await embedded.stop()
    assert not socket.parent.exists()


# A process that starts a server, prints a line, and waits for its end.
STARTER = """
    import asyncio, sys
    from pathlib import Path
    from sharebroker_server.redis_link.embedded import EmbeddedRedis
    from sharebroker_server.redis_link.link import RedisLink

    async def main():
        embedded = EmbeddedRedis(Path(sys.argv[1]), binary=Path(sys.argv[2]))
        await embedded.start()
        link = await RedisLink.connect(embedded.url)
        await link.call("SET", "k", "from the first life", timeout=5.0)
        print(embedded.pid, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_valkey_of_a_killed_process_ends_and_the_next_process_starts(kind: str, tmp_path: Path) -> None:
    starter = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(STARTER), tmp_path, binaries()[kind]),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert starter.stdout is not None
    orphan = int(await starter.stdout.readline())
    starter.kill()
    await starter.wait()
    embedded = EmbeddedRedis(tmp_path, binary=binaries()[kind])
    await embedded.start()  # waits until the orphan has written everything and exited
    assert embedded.pid != orphan
    link = await RedisLink.connect(embedded.url)
    assert await link.call("GET", "k", timeout=5.0) == b"from the first life"
    await link.close()
    await embedded.stop()


async def test_a_damaged_file_is_reported_and_releases_the_directory(kind: str, tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text(
        "file appendonly.aof.1.incr.aof seq 1 type i\n"
    )
    (tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof").write_text("this is no append-only file\n")
    for _ in range(2):
        embedded = EmbeddedRedis(tmp_path, binary=binaries()[kind])
        with pytest.raises(
            EmbeddedRedisFailed, match=r"the embedded server did not start: .*append only file"
        ):
            await embedded.start()


@pytest.mark.parametrize(
    ("response", "error", "sentence"),
    [
        ("Redis server v=6.2.14 sha=0", RedisTooOld, "Redis 6.2.14 is too old: 7.0 or newer is required"),
        ("Valkey server v=7.2.8 sha=0", RedisTooOld, "Valkey 7.2.8 is too old: 8.0 or newer is required"),
        ("something else", EmbeddedRedisFailed, "is neither a redis-server nor a valkey-server"),
    ],
)
async def test_unsuitable_programs_are_rejected(
    tmp_path: Path, response: str, error: type[Exception], sentence: str
) -> None:
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\necho '{response}'\n")
    program.chmod(0o755)
    with pytest.raises(error, match=sentence):
        await EmbeddedRedis(tmp_path / "data", binary=program).start()


async def test_missing_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedRedisFailed, match="cannot be executed: No such file"):
        await EmbeddedRedis(tmp_path / "data", binary=tmp_path / "nothing").start()


async def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedRedisFailed, match="cannot be used: "):
        await EmbeddedRedis(tmp_path / "file" / "data").start()
