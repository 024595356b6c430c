"""The doctor on a real Redis, with a live cluster and with one that no process serves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sharebroker_protocol import clock
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.links import connect
from sharebroker_server.telemetry.process import release
from tests.integration.watching.conftest import Watched
from tests.support.client import connected
from tests.testkit.brokers import one_process
from tests.testkit.servers import free_port, running
from tests.testkit.waiting import eventually

MAIN = [sys.executable, "-c", "from sharebroker.cli import main; main()", "doctor"]


async def doctor(*options: str) -> subprocess.CompletedProcess[str]:
    command = [*MAIN, *options]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


async def test_a_healthy_cluster_has_no_errors(watched: Watched) -> None:
    async def well() -> bool:
        done = await doctor("--redis", watched.redis.url, "--json")
        rows = json.loads(done.stdout)
        return done.returncode == 0 and [(row["level"], row["subject"]) for row in rows] == [
            ("warning", "redis 0"),  # it has no replica
            ("note", "redis 0"),  # its version
            ("note", "stored data"),
            ("note", "versions"),
        ]

    await eventually(well, 60)
    done = await doctor("--redis", watched.redis.url)
    assert "no replica" in done.stdout


async def test_doctor_reports_a_cluster_without_brokers(watched: Watched) -> None:
    done = await doctor("--redis", watched.redis.url, "--set", "cluster.id=absent", "--json")
    errors = [row["subject"] for row in json.loads(done.stdout) if row["level"] == "error"]
    assert errors == ["gateway", "group-coordinator", "share-coordinator", "share-partition-leader"]
    assert done.returncode == 1


async def test_doctor_reports_redis_durability_and_continues() -> None:
    options = ("--maxmemory-policy", "allkeys-lru", "--appendonly", "yes", "--appendfsync", "always")
    with running("valkey", *options, "--no-appendfsync-on-rewrite", "yes") as server:
        done = await doctor("--redis", server.url, "--json")
    rows = [(row["level"], row["subject"], row["what"].partition(":")[0]) for row in json.loads(done.stdout)]
    assert done.returncode == 1
    assert rows[:3] == [
        ("error", "redis 0", "maxmemory-policy is allkeys-lru"),
        ("warning", "redis 0", "no-appendfsync-on-rewrite is yes"),
        ("warning", "redis 0", "It has no replica"),
    ]
    assert ("error", "gateway", "No broker of this cluster has the role.") in rows


async def test_doctor_reports_an_unreachable_redis_without_the_password() -> None:
    done = await doctor("--redis", f"redis://me:secret@127.0.0.1:{free_port()}")
    assert done.returncode == 2
    assert done.stderr.startswith("sharebroker doctor: no Redis at 127.0.0.1:")
    assert "secret" not in done.stderr


async def test_doctor_reports_an_unreachable_redis_as_json() -> None:
    done = await doctor("--redis", f"redis://127.0.0.1:{free_port()}", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no Redis at" in json.loads(done.stderr)["message"]


async def test_doctor_examines_the_embedded_valkey_of_a_data_folder(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 30)  # its socket is elsewhere
    with one_process("--data", str(data)) as cluster:
        done = await doctor("--data", str(data), "--json")
        rows = json.loads(done.stdout)
        assert done.returncode == 0, done
    replica, *_ = [row for row in rows if "no replica" in row["what"]]
    assert "external Redis" in replica["remedy"]
    assert cluster.address in {
        row["what"].split()[-1].rstrip(".") for row in rows if row["subject"] == "versions"
    }
    done = await doctor("--data", str(data))
    assert (done.returncode, "No server with an embedded Valkey runs" in done.stderr) == (2, True)


@pytest.mark.parametrize("options", [(), ("--redis", "redis://127.0.0.1:1", "--data", "data")])
async def test_doctor_requires_one_of_redis_and_data(options: tuple[str, ...]) -> None:
    done = await doctor(*options)
    assert (done.returncode, "Either --redis or --data" in done.stderr) == (2, True)


async def test_doctor_reports_lag_without_members(watched: Watched) -> None:
    async with connected(watched.serve.address) as client:
        topic, _ = await client.create()
        group = await client.group()
        await client.publish(topic, "abc")
        first, *_ = await client.acquire_all(group, topic, 3, "m")
        await client.acknowledge(group, "m", [first])
        begun = await client.group()  # of which nothing is stored
        await client.acquire_all(begun, topic, 3, "m")
    done = await doctor("--redis", watched.redis.url, "--json")
    rows = {row["subject"]: row for row in json.loads(done.stdout)}
    assert rows["versions"]["what"] == f"{release()}: {watched.serve.address}."
    assert rows[f"group {group}"]["what"] == "Its lag is 2 records, and it has no member."
    assert rows[f"group {begun}"]["what"] == "Its lag is 3 records, and it has no member."
    nonsense = await doctor("--redis", watched.redis.url, "--server", "nowhere")
    assert (nonsense.returncode, "not 'nowhere'" in nonsense.stderr) == (2, True)
    unused = f"127.0.0.1:{free_port()}"
    done = await doctor("--redis", watched.redis.url, "--server", unused, "--json")
    assert [row["subject"] for row in json.loads(done.stdout)] == [
        "redis 0",
        "redis 0",
        "stored data",
        "gateway",
        "versions",
    ]


async def test_doctor_reports_clock_skew(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharebroker_server.leases.redis.now", lambda: clock.now() + 90.0)
    link = await connect(watched.redis.url)
    ahead = ClusterMember("78/1", 78, frozenset({"gateway"}), "127.0.0.1:9", version=release())
    store = RedisLeaseStore(link)

    async def reported() -> bool:
        await store.announce(ahead, 60.0)  # each step uses the result of the previous one
        done = await doctor("--redis", watched.redis.url, "--server", watched.serve.address, "--json")
        rows = {row["subject"]: row["what"] for row in json.loads(done.stdout)}
        assert f"broker {watched.serve.address}" not in rows
        return "its clock differs by +90." in rows.get("broker 127.0.0.1:9", "").lower()

    try:
        await eventually(reported, 60)
    finally:
        await store.withdraw(ahead.owner)
        await link.close()


async def test_doctor_reports_mixed_versions(watched: Watched) -> None:
    link = await connect(watched.redis.url)
    older = ClusterMember("77/1", 77, frozenset({"gateway"}), "127.0.0.1:9", version="0.0.1")
    store = RedisLeaseStore(link)
    await store.announce(older, 60.0)
    try:
        done = await doctor("--redis", watched.redis.url, "--server", watched.serve.address, "--json")
    finally:
        await store.withdraw(older.owner)
        await link.close()
    (row,) = [row for row in json.loads(done.stdout) if row["subject"] == "versions"]
    assert row["level"] == "warning"
    assert "0.0.1: 127.0.0.1:9;" in row["what"]
    assert "restart the older brokers" in row["remedy"]
