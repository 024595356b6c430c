"""`sharebroker verify` against a running server, also after its Redis was tampered with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from sharebroker import Record, ShareConsumer
from sharebroker_protocol.storage.v1.share_state_pb2 import ShareStateRecord
from tests.integration.client.cli.commands.commands import create_group
from tests.integration.client.cli.commands.conftest import Command
from tests.testkit.brokers import Cluster
from tests.testkit.waiting import until

Change = Callable[[ShareStateRecord], bytes | None]


@pytest.fixture
def worked(sharebroker: Command, server: str, topic: str, group: str) -> int:
    """Creates a partition with six records: two accepted behind one released, one rejected."""
    sharebroker("groups", "config", group, "--set", "share.auto.offset.reset=earliest")
    sharebroker("produce", topic, "--format", "jsonl", "--key", "id", stdin=b'{"id": 1}\n' * 6)
    with ShareConsumer(server, group, [topic]) as consumer:
        records: list[Record] = []
        while len(records) < 6:
            records += consumer.poll(timeout=20)
        for record in records:
            if record.offset in (1, 2):
                record.accept()
            elif record.offset == 4:
                record.reject("no good")
            else:
                record.release()
            if record.offset == 2:
                # a checkpoint, since it contains the group's start offset; what follows is a delta
                consumer.commit()
        consumer.commit()
    return records[0].partition


def test_every_offset_has_an_outcome(sharebroker: Command, topic: str, group: str, worked: int) -> None:
    ran = sharebroker("verify", group, topic, "--offsets", "--json")
    assert (ran.code, ran.data["well"]) == (0, True)
    rows = {row["partition"]: row for row in ran.data["partitions"]}
    assert set(rows) == {0, 1}
    row = rows[worked]
    assert (row["log_start"], row["log_end"], row["start_offset"], row["findings"]) == (0, 6, 0, [])
    assert (row["accepted"], row["rejected"], row["archived"], row["available"], row["passed"]) == (
        2,
        1,
        0,
        3,
        0,
    )
    assert [(run["first_offset"], run["last_offset"], run["fate"]) for run in row["offsets"]] == [
        (0, 0, "available"),
        (1, 2, "accepted"),
        (3, 3, "available"),
        (4, 4, "rejected"),
        (5, 5, "available"),
    ]
    assert [run["failed_at"] is not None for run in row["offsets"]] == [False, False, False, True, False]
    assert row["in_delivery"] == row["gap"] == row["undecided"] == 0
    shown = sharebroker("verify", group, "--offsets")
    assert shown.code == 0
    assert all(heading in shown.out for heading in ("VERDICT", "OUTCOME"))
    assert "FINDING" not in shown.out


def test_held_records_are_reported(sharebroker: Command, server: str, topic: str, group: str) -> None:
    record = b'{"id": 1, "text": "' + b"x" * 900_000 + b'"}\n'
    # more than one read of the log can return
    assert sharebroker("produce", topic, "--format", "jsonl", "--key", "id", stdin=record * 6).code == 0
    create_group(server, topic, group)
    with ShareConsumer(server, group, [topic]) as consumer:
        held, *_ = consumer.poll(timeout=20)
        ran = sharebroker("verify", group, "--json")
    rows = {row["partition"]: row for row in ran.data["partitions"]}
    row = rows[held.partition]
    assert (ran.code, row["start_offset"], row["log_end"], row["in_delivery"] + row["available"]) == (
        0,
        0,
        6,
        6,
    )
    assert row["in_delivery"] > 0
    assert rows[1 - held.partition]["log_end"] == 0


def test_waiting_records_are_counted_beside_held_ones(
    sharebroker: Command, server: str, topic: str, group: str
) -> None:
    create_group(server, topic, group)
    sharebroker("produce", topic, "--format", "jsonl", "--key", "id", stdin=b'{"id": 1}\n' * 4)
    with ShareConsumer(server, group, [topic]) as consumer:
        records: list[Record] = []
        while len(records) < 4:
            records += consumer.poll(timeout=20)
        records[1].release(3600)
        records[2].accept()
        consumer.commit()
        ran = sharebroker("verify", group, topic, "--offsets", "--json")
    row = {row["partition"]: row for row in ran.data["partitions"]}[records[0].partition]
    assert (ran.code, row["findings"]) == (0, [])
    assert [run["fate"] for run in row["offsets"]] == ["in_delivery", "waiting", "accepted", "in_delivery"]
    assert (row["waiting"], row["in_delivery"], row["available"]) == (1, 2, 0)
    # Without consumers the leader unloads the share-partition; the record waits nevertheless.
    ran = sharebroker("verify", group, topic, "--json")
    row = {row["partition"]: row for row in ran.data["partitions"]}[records[0].partition]
    assert (ran.code, row["waiting"], row["in_delivery"], row["available"]) == (0, 1, 0, 2)
    assert "WAITING" in sharebroker("verify", group, topic).out


def test_archiving_records_are_shown_until_their_letters_are_written(
    sharebroker: Command, server: str, topic: str, group: str
) -> None:
    letters = f"dlq.{topic}"
    create_group(server, topic, group)
    sharebroker("groups", "config", group, "--set", f"errors.deadletterqueue.topic.name={letters}")
    sharebroker("produce", topic, "--format", "jsonl", "--key", "id", stdin=b'{"id": 1}\n' * 3)
    with ShareConsumer(server, group, [topic]) as consumer:
        records: list[Record] = []
        while len(records) < 3:
            records += consumer.poll(timeout=20)
        records[1].reject("no good")
        consumer.commit()
        place = records[0].partition
        ran = sharebroker("verify", group, topic, "--offsets", "--json")
    row = {row["partition"]: row for row in ran.data["partitions"]}[place]
    assert (ran.code, row["findings"], row["archiving"]) == (0, [], 1)
    archiving = row["offsets"][1]
    assert (archiving["fate"], archiving["disposition"]) == ("archiving", "rejected")
    assert archiving["failed_at"] is not None
    assert sharebroker("groups", "describe", group, "--json").data["archiving"] == 1

    enabled = ("--config", "errors.deadletterqueue.group.enable=true")
    sharebroker("topics", "create", letters, "--partitions", "1", *enabled)

    def written() -> bool:
        return bool(sharebroker("groups", "describe", group, "--json").data["archiving"] == 0)

    until(written, 60)
    ran = sharebroker("verify", group, topic, "--offsets", "--json")
    row = {row["partition"]: row for row in ran.data["partitions"]}[place]
    assert [run["fate"] for run in row["offsets"]] == ["available", "rejected", "available"]


@pytest.mark.parametrize("topics", [(), ("nowhere",)])
def test_unknown_group_ends_with_code_2(sharebroker: Command, group: str, topics: tuple[str, ...]) -> None:
    ran = sharebroker("verify", group, *topics)
    assert (ran.code, ran.out) == (2, "")
    assert group in ran.err


def _archive_all(record: ShareStateRecord) -> bytes:
    for batch in record.delta.state_batches:
        batch.delivery_state = 4
    return record.SerializeToString()


def _leave_out(_: ShareStateRecord) -> None:
    """Removes the delta."""


def _garble(_: ShareStateRecord) -> bytes:
    return b"\xff"


@pytest.mark.parametrize(
    ("change", "kind", "offsets"),
    [
        (_archive_all, "not-the-replay", [3, 5]),
        (_leave_out, "not-the-replay", [3, 4, 5]),
        (_garble, "unreadable", []),
    ],
)
def test_tampered_delta_is_found(
    sharebroker: Command,
    cluster: Cluster,
    topic: str,
    group: str,
    worked: int,
    change: Change,
    kind: str,
    offsets: list[int],
) -> None:
    shown = sharebroker("state", "show", group, topic, str(worked), "--json").data
    (delta,) = (record for record in shown["records"] if record["kind"] == "delta")
    with redis.Redis.from_url(cluster.redis_url) as store:
        with _tampered(store, shown["stream"], delta["position"], change):
            ran = sharebroker("verify", group, "--json")
            assert "FINDING" in sharebroker("verify", group).out
        assert sharebroker("verify", group).code == 0
    assert (ran.code, ran.data["well"]) == (1, False)
    rows = {row["partition"]: row for row in ran.data["partitions"]}
    assert (rows[worked]["verdict"], rows[1 - worked]["verdict"]) == ("wrong", "well")
    findings = rows[worked]["findings"]
    assert {finding["kind"] for finding in findings} == {kind}
    spans = [(f["first_offset"], f["last_offset"]) for f in findings if f["first_offset"] is not None]
    assert [offset for first, last in spans for offset in range(first, last + 1)] == offsets


@contextmanager
def _tampered(store: Any, stream: str, position: int, change: Change) -> Iterator[None]:
    """Provides a stream with one entry changed by `change` (None removes it), and restores it at the end."""
    rows = {entry: fields[b"p"] for entry, fields in store.xrange(stream)}
    entry = f"{position}-0".encode()
    _put(store, stream, rows | {entry: change(ShareStateRecord.FromString(rows[entry]))})
    yield
    _put(store, stream, rows)


def _put(store: Any, stream: str, rows: dict[bytes, bytes | None]) -> None:
    """Replaces a stream in one step; its last position stays."""
    with store.pipeline(transaction=True) as step:
        step.delete(stream)
        for entry, payload in rows.items():
            if payload is not None:
                step.xadd(stream, {"p": payload}, id=entry)
        step.execute_command("XSETID", stream, max(rows, key=lambda entry: int(entry[:-2])))
        step.execute()
