"""This server on data that released servers wrote (`tests/samples`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import orjson
import pytest
import redis

from sharebroker_protocol import clock
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicPartition
from sharebroker_server.broker.process import Process
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.catalog.features import DEAD_LETTERS, SHARE
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.redis_link.format_version import FORMAT_FILE, FORMAT_VERSION
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.telemetry.process import release
from tests.samples.contents import (
    DEAD,
    ORDERS,
    ORDERS_IN_PARTITION_0,
    PROPERTIES,
    WORKERS,
    Clients,
    acquire_partition_0,
    clients,
    described,
)
from tests.samples.reading import SAMPLES, contents, load, unpack
from tests.support.client import REJECT
from tests.testkit.servers import binaries
from tests.testkit.shared_servers import Servers
from tests.testkit.waiting import eventually

EMBEDDED = "embedded"
pytestmark = pytest.mark.servers


@pytest.fixture(params=SAMPLES, ids=lambda path: path.name)
def sample(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture(params=[EMBEDDED, *binaries()])
def settings(
    request: pytest.FixtureRequest, sample: Path, tmp_path: Path, redis_servers: Servers
) -> ServeSettings:
    """The settings of a broker on a copy of the sample: in a data folder, or in a Redis."""
    data = tmp_path / "data"
    unpack(sample, data)
    url = None
    if request.param != EMBEDDED:
        url = redis_servers.fresh(request.param)
        load(url, data)
    config = BrokerConfig.parse(PROPERTIES)
    return ServeSettings(data=data, redis=url, grpc="127.0.0.1:0", kafka="127.0.0.1:0", config=config)


@asynccontextmanager
async def started(settings: ServeSettings, sample: Path) -> AsyncIterator[Clients]:
    """Runs a broker at the time of the sample: sessions, transactions and offsets have not expired."""
    ready = settings.data / "ready.json"
    since = contents(sample)["written at"] - monotonic()
    with clock.counted_by(lambda: monotonic() + since):
        process = Process(replace(settings, ready_file=ready))
        await process.start()
        try:
            kafka = orjson.loads(ready.read_bytes())["kafka"]
            async with clients(process.address, kafka) as at:
                yield at
        finally:
            await process.stop()


async def test_everything_is_read_back_and_in_use(settings: ServeSettings, sample: Path) -> None:
    expected = contents(sample)
    async with started(settings, sample) as at:
        found = orjson.loads(orjson.dumps(await described(at)))
        for part, value in found.items():
            assert value == expected[part], part
        assert await at.grpc.publish(ORDERS, ["new"], partition=0) == [(0, ORDERS_IN_PARTITION_0)]
        got = await acquire_partition_0(at, WORKERS, 16, "new worker")
        counts = {record.offset: record.delivery_count for record in got}
        # 0 to 3 and 6 are finished, 4 was released, 5 and 7 to 11 were locked for too long.
        assert counts == dict.fromkeys((4, 5, *range(7, 12)), 2) | dict.fromkeys(range(12, 21), 1)
        assert not any(await at.grpc.acknowledge(WORKERS, "new worker", got))


@pytest.mark.parametrize("settings", ["valkey"], indirect=True)
async def test_fields_of_newer_releases_are_ignored(settings: ServeSettings, sample: Path) -> None:
    assert settings.redis is not None
    assert add_unknown_fields(settings.redis) > 50
    async with started(settings, sample) as at:
        found = orjson.loads(orjson.dumps(await described(at)))
    assert found == {part: value for part, value in contents(sample).items() if part in found}


def add_unknown_fields(url: str) -> int:
    """Adds field 1000 to every record of the coordinators and of the catalog; returns their number."""
    unknown, count = b"\xc0\x3e\x01", 0
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter("sharebroker:*:log"):
            if b"{partition:" in key:
                continue
            entries = client.xrange(key)
            client.delete(key)
            for position, fields in entries:
                client.xadd(key, {"p": fields[b"p"] + unknown}, id=position)
            count += len(entries)
    return count


@pytest.mark.parametrize("settings", ["valkey"], indirect=True)
async def test_an_older_cluster_has_dead_letters_once_its_level_is_raised(
    settings: ServeSettings, sample: Path
) -> None:
    letters = "dlq.workers"
    async with started(settings, sample) as at:
        assert {feature.name: feature.level for feature in await at.admin.list_features()}[SHARE] == 1
        await at.admin.create_topic(letters, 1, {"errors.deadletterqueue.group.enable": "true"})
        await at.admin.alter_group_configs(WORKERS, {"errors.deadletterqueue.topic.name": letters})
        for level in (1, DEAD_LETTERS):
            await at.admin.set_features({SHARE: level})
            (record,) = await acquire_partition_0(at, WORKERS, 1, "new worker")
            assert not any(await at.grpc.acknowledge(WORKERS, "new worker", [record], REJECT))
        await eventually(lambda: end_offset(at, letters))
    assert settings.redis is not None
    with redis.Redis.from_url(settings.redis) as client:
        assert client.hget(Keys().format_version(), "version") == str(FORMAT_VERSION).encode()
    async with started(settings, sample) as at:
        assert await end_offset(at, letters) == 1


async def end_offset(at: Clients, topic: str) -> int | None:
    partition = TopicPartition(topic, 0)
    return (await at.admin.list_offsets([partition]))[partition]


async def test_the_sample_has_every_state(sample: Path) -> None:
    """A sample without one of them proves less than it seems to."""
    written = contents(sample)
    groups = written["share groups"]
    assert {group["state"] for group in groups.values()} == {"Empty", "Stable"}
    assert DEAD not in groups
    assert {found["state"] for found in written["transactions"].values()} == {
        "CompleteCommit",
        "CompleteAbort",
        "Ongoing",
    }
    batches = [batch for state in written["share state"].values() if state for batch in state["batches"]]
    assert {state for _, _, state, _ in batches} == {0, 2, 4}
    assert all(written[part] for part in ("consumer groups", "users", "acls", "quotas"))


async def test_data_with_a_newer_format_is_not_read(settings: ServeSettings, sample: Path) -> None:
    newer = {"version": FORMAT_VERSION + 1, "release": "9.9.9"}
    if settings.redis is None:
        (settings.data / FORMAT_FILE).write_bytes(orjson.dumps(newer))
    else:
        with redis.Redis.from_url(settings.redis) as client:
            client.hset(Keys().format_version(), mapping=newer)
    with pytest.raises(KafkaError) as rejected:
        await Process(settings).start()
    assert f"has format version {FORMAT_VERSION + 1}, written by release 9.9.9" in str(rejected.value)
    assert f"release {release()}, reads format versions up to {FORMAT_VERSION}" in str(rejected.value)
