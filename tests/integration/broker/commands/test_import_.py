"""`sharebroker import` as a process: that it can be killed, and when it is rejected."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from sharebroker_server.broker.commands.import_ import EXAMPLES
from tests.durability.append_only import embedded
from tests.integration.broker.commands.commands import MAIN, command
from tests.support.client import connected
from tests.testkit.brokers import Serve, one_process
from tests.testkit.waiting import eventually
from tests.unit.broker.archive.scene import SHARDS, content, make_archive

SET = [word for shard in SHARDS for word in ("--set", shard)]


def test_examples_name_the_command() -> None:
    assert all(example.startswith("sharebroker import ") for example in EXAMPLES)


async def test_a_killed_import_continues(tmp_path: Path) -> None:
    make_archive(tmp_path / "one")
    data = tmp_path / "data"
    # A short life of leases: those of the killed import expire soon.
    short = [*SET, "--set", "broker.session.timeout.ms=1000"]
    words = ["import", str(tmp_path / "one"), "--data", str(data), *short]
    log = data / "valkey" / "appendonlydir"

    def size() -> int:
        return sum(path.stat().st_size for path in log.glob("*.incr.aof")) if log.exists() else 0

    for least in (1, 100_000, 1_000_000):
        importing = await asyncio.create_subprocess_exec(*MAIN, *words, stderr=subprocess.DEVNULL)

        def reached(least: int = least, importing: asyncio.subprocess.Process = importing) -> bool:
            return size() > least or importing.returncode is not None

        await eventually(reached)
        if importing.returncode is None:
            importing.kill()
        await importing.wait()
    done = await command(*words)
    assert done.returncode == 0 or "already exists" in done.stderr, done.stderr
    done = await command("export", str(tmp_path / "two"), "--data", str(data), *short)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "two") == content(tmp_path / "one")


@pytest.fixture
def archive(tmp_path: Path) -> str:
    make_archive(tmp_path / "one")
    return str(tmp_path / "one")


async def rejected(*words: str) -> str:
    done = await command("import", *words)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


async def test_an_archive_of_another_version_is_rejected(archive: str, tmp_path: Path) -> None:
    manifest = Path(archive) / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 9}))
    text = await rejected(archive, "--data", str(tmp_path / "data"), "--json")
    assert json.loads(text) == {
        "error": "ArchiveError",
        "message": "The archive has version 9, written by release 0.1.0. This release reads version 1.",
    }


async def test_topics_are_imported_while_a_server_works(archive: str) -> None:
    """A group of the cluster receives each record once, and an import that exists already is rejected."""
    with one_process(*SET) as cluster:
        words = [archive, "--data", str(embedded(cluster).parent), *SET]
        async with connected(cluster.address) as client:
            topic, _ = await client.create()
            group_id = await client.group()
            await client.publish(topic, map(str, range(20)))
            held = await client.acquire_all(group_id, topic, 10, "a")
            done = await command("import", *words)
            assert done.returncode == 0, done.stderr
            listed = await command("topics", "list", "--server", cluster.address, "--json")
            names = {each["name"] for each in json.loads(listed.stdout)}
            assert {topic, "bills", "orders"} <= names
            assert set(await client.acknowledge(group_id, "a", held)) == {0}
            rest = await client.acquire_all(group_id, topic, 10, "b")
            assert sorted(int(each.text) for each in [*held, *rest]) == [*range(20)]
            assert "already exists" in await rejected(*words)


async def test_topics_can_be_renamed(archive: str, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    for names in (["--rename", "bills=new"], ["--skip-existing", "--topic", "bills", "--group", "other"]):
        done = await command("import", archive, "--data", data, *names, *SET)
        assert done.returncode == 0, done.stderr
    serve = Serve(tmp_path, ["--data", data, *SET])
    serve.start()
    try:
        listed = await command("topics", "list", "--server", serve.address, "--json")
        assert sorted(topic["name"] for topic in json.loads(listed.stdout)) == ["bills", "new", "orders"]
    finally:
        serve.stop()
