"""Four processes of the release that wrote a sample are replaced one at a time under load, and back again."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from sharebroker_protocol.model import (
    Disposition,
    FailedRecords,
    FailureNote,
    JournalUpdate,
    RecordState,
    SharePartitionKey,
    StateBatch,
    StateNote,
)
from sharebroker_server.catalog.features import DEAD_LETTERS, SHARE
from sharebroker_server.record_log.core.notes import Note
from sharebroker_server.record_log.core.snapshots import NOTE_NAME
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint, ShareDelta
from sharebroker_server.share_coordinator.store.codec import COLUMNS_FROM, ShareRecordCodec
from sharebroker_server.share_partition_leader.core.letter_note import LetterNote, note_key
from sharebroker_server.share_partition_leader.dead_letters.append import encoded
from tests.perf.checkout import HERE, Checkout
from tests.samples.contents import PROPERTIES, WORKERS, Clients, acquire_partition_0, clients, described
from tests.samples.reading import SAMPLES, contents, load, unpack
from tests.support.checkouts import NoHistory, exported, program, revision_of
from tests.support.traffic import Traffic
from tests.testkit.brokers import ROLES, Cluster, Serve, serving
from tests.testkit.servers import running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("upgrades")]

RELEASES: Final = "EARLIER_RELEASES"
"""The variable that names a folder with the sources of earlier releases, for a tree without history."""

LASTING: Final = ("records", "share state", "users", "acls", "quotas")
"""Parts of a sample that do not expire."""


@pytest.fixture(params=SAMPLES, ids=lambda path: path.name)
def sample(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture
def earlier(sample: Path, tmp_path: Path) -> Checkout:
    """The release that wrote the sample: in the given folder, or of the history of the repository."""
    try:
        if RELEASES in os.environ:
            return Checkout.at(Path(os.environ[RELEASES], sample.name))
        return exported(revision_of(sample), tmp_path / "earlier")
    except NoHistory as missing:
        pytest.skip(
            f"{missing}. Run the test in a complete clone, or unpack the sources of release {sample.name} "
            f"into FOLDER/{sample.name} and set {RELEASES}=FOLDER."
        )


@pytest.fixture
def cluster(sample: Path, earlier: Checkout, tmp_path: Path) -> Iterator[Cluster]:
    """Four processes of the earlier release, one for each role, on a copy of the sample."""
    unpack(sample, tmp_path / "data")
    with running("valkey", "--appendonly", "yes", "--appendfsync", "always") as redis:
        load(redis.url, tmp_path / "data")
        options = [word for pair in PROPERTIES for word in ("--set", pair)]
        serves = [
            Serve(tmp_path, ["--redis", redis.url, "--roles", role, *options], role, program=program(earlier))
            for role in ROLES
        ]
        with serving(serves):
            yield Cluster(serves, redis.url, redis)


async def replace_all(cluster: Cluster, checkout: Checkout, traffic: Traffic) -> None:
    """Replaces the processes one at a time; work continues after each."""
    for serve in cluster.processes:
        assert await asyncio.to_thread(serve.stop) == 0, serve.log
        serve.program = program(checkout)
        await asyncio.to_thread(serve.start)
        await traffic.moves()


async def lasting(at: Clients) -> dict[str, Any]:
    found = orjson.loads(orjson.dumps(await described(at)))
    return {part: found[part] for part in LASTING}


@pytest.mark.timeout(300)
async def test_processes_are_replaced_one_at_a_time_and_back(
    cluster: Cluster, sample: Path, earlier: Checkout
) -> None:
    written = {part: contents(sample)[part] for part in LASTING}
    async with clients(cluster.address, cluster.kafka) as at:
        topic, topic_id = await at.grpc.create(4)
        traffic = Traffic(cluster.address, topic, await at.grpc.group())
        async with traffic.flowing() as books:
            await replace_all(cluster, HERE, traffic)
            await at.admin.set_features({SHARE: DEAD_LETTERS})
            await traffic.moves()
            await at.admin.set_features({SHARE: 1})
            await replace_all(cluster, earlier, traffic)
            await traffic.drain(at.grpc, topic_id)
        assert not books.broken
    async with clients(cluster.address, cluster.kafka) as at:  # the gateway has closed the connections
        found = await lasting(at)
        for part, value in written.items():
            kept = found[part]
            if isinstance(value, dict):  # the test's own topic and group come in addition
                kept = {key: one for key, one in kept.items() if key in value}
            assert kept == value, part
        got = await acquire_partition_0(at, WORKERS, 15, "new worker")
        counts = {record.offset: record.delivery_count for record in got}
        assert counts == dict.fromkeys((4, 5, *range(7, 12)), 2) | dict.fromkeys(range(12, 20), 1)
    assert all("Traceback" not in serve.log for serve in cluster.processes)


READER: Final = HERE.folder / "tests" / "support" / "stored_reader.py"
KEY: Final = SharePartitionKey("workers", "A" * 22, 0)
FAILURE: Final = StateNote(failure=FailureNote(Disposition.REJECTED, 1_795_000_000_000, "m", "no account"))
FAILED: Final = JournalUpdate((FailedRecords(0, 0, Disposition.REJECTED, 2),), 100, 0)


def archiving(offset: int) -> StateBatch:
    return StateBatch(offset, offset, RecordState.ARCHIVING, 2, FAILURE)


def read_by(checkout: Checkout, stored: dict[str, Any]) -> Any:
    done = subprocess.run(
        [checkout.python, str(READER)],
        input=orjson.dumps(stored),
        env=checkout.environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return orjson.loads(done.stdout)


def test_an_earlier_release_does_not_load_archiving_records(earlier: Checkout) -> None:
    """It reads their states as they are, and opens neither their share-partition nor a log with a note."""
    few = (archiving(0), StateBatch(1, 4, RecordState.ACKNOWLEDGED, 1))
    many = tuple(archiving(2 * number) for number in range(COLUMNS_FROM + 1))
    records: list[ShareCheckpoint | ShareDelta] = [
        ShareCheckpoint(KEY, 0, 1, 1, 0, 0, 1, 1, few, FAILED, 1),
        ShareCheckpoint(KEY, 0, 1, 1, 0, 0, 1, 1, many, FAILED, 1),
        ShareDelta(KEY, 0, 0, -1, -1, 0, few, 1, FAILED),
    ]
    note = Note(encoded(LetterNote(1, ((0, 0),), 1))).packed()
    stored = {
        "states": [ShareRecordCodec().encode(record).hex() for record in records],
        "notes": {NOTE_NAME + note_key("workers", KEY.topic_id, 0, 1): note.hex()},
    }
    batches = [[list(batch[:4]) for batch in record.state_batches] for record in records]
    ours = read_by(HERE, stored)
    assert ours == {"states": [[each, ""] for each in batches], "notes": ""}
    theirs = read_by(earlier, stored)
    assert [read for read, _ in theirs["states"]] == batches
    assert all("3 is not a valid RecordState" in error for _, error in theirs["states"])
    assert "has unknown format 1" in theirs["notes"]
