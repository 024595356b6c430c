"""The format version of stored data: created once, checked at every start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from sharebroker_server.redis_link.format_version import (
    FIRST,
    FORMAT_FILE,
    FORMAT_VERSION,
    StoredFormat,
    check_folder,
    check_format,
    check_redis,
    read_format,
)
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.redis_link.port import EmbeddedRedisFailed, FormatUnsupported
from sharebroker_server.telemetry.process import release

CURRENT = StoredFormat(FORMAT_VERSION, release())
NEWER = StoredFormat(FORMAT_VERSION + 1, "9.9.9")


def test_an_older_server_names_both_versions_and_the_remedy() -> None:
    with pytest.raises(FormatUnsupported) as rejected:
        check_format("The data", StoredFormat(3, "0.5.0"), "0.2.0", supported=2)
    assert str(rejected.value) == (
        "The data has format version 3, written by release 0.5.0. "
        "This server, release 0.2.0, reads format versions up to 2. "
        "Start release 0.5.0 or newer, or restore a backup from before the upgrade."
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_server_reads_its_version_and_lower_ones(version: int) -> None:
    check_format("The data", StoredFormat(version, "0.1.0"), "0.2.0", supported=2)


# The data folder


def test_a_new_folder_gets_the_current_version(tmp_path: Path) -> None:
    check_folder(tmp_path)
    check_folder(tmp_path)
    assert orjson.loads((tmp_path / FORMAT_FILE).read_bytes()) == {
        "version": FORMAT_VERSION,
        "release": release(),
    }


def test_a_folder_of_the_first_release_gets_version_1(tmp_path: Path) -> None:
    (tmp_path / "valkey").mkdir()
    check_folder(tmp_path)
    stored = orjson.loads((tmp_path / FORMAT_FILE).read_bytes())
    assert stored == {"version": FIRST.version, "release": FIRST.release}


def test_a_folder_of_a_newer_release_is_rejected_and_stays_unchanged(tmp_path: Path) -> None:
    data = orjson.dumps({"version": NEWER.version, "release": NEWER.release})
    (tmp_path / FORMAT_FILE).write_bytes(data)
    with pytest.raises(
        FormatUnsupported, match=rf"{tmp_path} has format version {NEWER.version}, .* 9\.9\.9"
    ):
        check_folder(tmp_path)
    assert (tmp_path / FORMAT_FILE).read_bytes() == data


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 1}', '{"version": "x", "release": "1"}'])
def test_a_damaged_file_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / FORMAT_FILE).write_text(content)
    with pytest.raises(FormatUnsupported, match=r"format version.* [Rr]estore"):
        check_folder(tmp_path)


def test_an_unusable_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedRedisFailed, match="cannot be used: No such file"):
        check_folder(tmp_path / "missing")


# Redis


async def test_new_data_gets_the_current_version_once(redis_link: RedisLink) -> None:
    keys = Keys.of_cluster("")
    assert await read_format(redis_link, keys) is None
    await asyncio.gather(*(check_redis(redis_link, "") for _ in range(3)))
    assert await read_format(redis_link, keys) == CURRENT
    assert await read_format(redis_link, Keys.of_cluster("another")) is None


@pytest.mark.parametrize("part", ["lease", "log"])
async def test_data_of_the_first_release_gets_version_1(redis_link: RedisLink, part: str) -> None:
    keys = Keys.of_cluster("orders")
    key = keys.lease("catalog") if part == "lease" else keys.log("catalog")
    await redis_link.call("SET", key, "anything", timeout=5.0)
    await check_redis(redis_link, "orders")
    assert await read_format(redis_link, keys) == FIRST


async def test_data_of_a_newer_release_is_rejected(redis_link: RedisLink) -> None:
    key = Keys.of_cluster("orders").format_version()
    await redis_link.call("HSET", key, "version", NEWER.version, "release", NEWER.release, timeout=5.0)
    with pytest.raises(
        FormatUnsupported, match=rf"'sharebroker\.orders' in Redis has format version {NEWER.version}"
    ):
        await check_redis(redis_link, "orders")
    await check_redis(redis_link, "")


@pytest.mark.parametrize("version", ["", "0", "-1", "two", "1.5", "\u0661"])
async def test_an_invalid_version_is_rejected(redis_link: RedisLink, version: str) -> None:
    await redis_link.call("HSET", Keys().format_version(), "version", version, timeout=5.0)
    with pytest.raises(FormatUnsupported, match="invalid format version"):
        await check_redis(redis_link, "")
