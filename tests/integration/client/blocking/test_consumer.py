"""Scenarios through the blocking client, which runs the same calls on a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest

from sharebroker import (
    AcknowledgementOutcome,
    Admin,
    ConsumerConfig,
    ErrorCode,
    IllegalStateError,
    Producer,
    Record,
    ShareConsumer,
    WakeupError,
)
from tests.integration.share_consumer.harness import QUIET, TIMEOUT, accept_all, offsets
from tests.testkit.waiting import until


class BlockingHarness:
    """A topic and a group on a running server."""

    def __init__(self, server: str, stack: contextlib.ExitStack) -> None:
        self._server = server
        self._stack = stack
        self.admin = stack.enter_context(Admin(server))
        self.topic = f"topic-{uuid.uuid4().hex[:12]}"
        self.group = f"group-{uuid.uuid4().hex[:12]}"
        self.admin.create_topic(self.topic, 2)
        self.configure({"share.auto.offset.reset": "earliest"})

    def configure(self, configs: dict[str, str | None]) -> None:
        self.admin.alter_group_configs(self.group, configs)

    def produce(self, count: int) -> None:
        with Producer(self._server) as producer:
            for n in range(count):
                producer.send(self.topic, b"%d" % n, partition=0)

    def consumer(self, **config: Any) -> ShareConsumer:
        consumer = ShareConsumer(self._server, self.group, [self.topic], ConsumerConfig(**config))
        return self._stack.enter_context(consumer)


@pytest.fixture
def harness(server: str) -> Iterator[BlockingHarness]:
    with contextlib.ExitStack() as stack:
        yield BlockingHarness(server, stack)


def poll(consumer: ShareConsumer) -> list[Record]:
    """Returns the first poll that finds records."""
    deadline = monotonic() + TIMEOUT
    while not (records := consumer.poll(1.0)):
        assert monotonic() < deadline
    return records


def test_poll_no_subscribe_fails(server: str) -> None:
    with ShareConsumer(server, "group") as consumer, pytest.raises(IllegalStateError, match="not subscribed"):
        consumer.poll(0.1)


def test_explicit_acknowledge_commit_success(harness: BlockingHarness) -> None:
    harness.produce(1)
    consumer = harness.consumer()
    accept_all(poll(consumer))
    harness.produce(1)
    assert [(result.offset, result.error) for result in consumer.commit()] == [(0, None)]
    assert offsets(poll(consumer)) == [1]


def test_explicit_acknowledge_release_poll_accept(harness: BlockingHarness) -> None:
    harness.produce(1)
    consumer = harness.consumer()
    (record,) = poll(consumer)
    record.release()
    (again,) = poll(consumer)
    assert (again.offset, again.delivery_count) == (0, 2)
    again.accept().result(5)
    assert consumer.poll(QUIET) == []


def test_implicit_acknowledge_commit_sync(harness: BlockingHarness) -> None:
    harness.produce(2)
    outcomes: list[AcknowledgementOutcome] = []
    consumer = harness.consumer(
        share_acknowledgement_mode="implicit", acknowledgement_commit_callback=outcomes.append
    )
    records = poll(consumer)
    with pytest.raises(IllegalStateError, match="implicit"):
        records[0].accept()
    assert [result.error for result in consumer.commit()] == [None] * len(records)
    assert [offset for outcome in outcomes for offset in outcome.offsets] == offsets(records)
    assert consumer.commit() == []


def test_acquisition_lock_timeout_on_consumer(harness: BlockingHarness) -> None:
    harness.configure({"share.record.lock.duration.ms": "1000"})
    harness.produce(1)
    consumer = harness.consumer()
    (record,) = poll(consumer)
    until(lambda: record.lock_lost)
    record.accept()
    assert [result.error and result.error.code for result in consumer.commit()] == [
        ErrorCode.INVALID_RECORD_STATE
    ]
    (again,) = poll(consumer)
    assert (again.offset, again.delivery_count) == (0, 2)
    again.accept().result(5)


def test_wakeup_from_another_thread(harness: BlockingHarness) -> None:
    consumer = harness.consumer()
    waker = threading.Timer(0.1, consumer.wakeup)
    waker.start()
    with pytest.raises(WakeupError):
        consumer.poll(30.0)
    waker.join()


def test_callbacks_run_in_the_applications_thread(harness: BlockingHarness) -> None:
    threads: list[threading.Thread] = []
    consumer = harness.consumer(
        acknowledgement_commit_callback=lambda _: threads.append(threading.current_thread())
    )
    harness.produce(3)
    accept_all(poll(consumer))
    consumer.commit()
    assert set(threads) == {threading.current_thread()}


def test_multiple_consumers_in_group_concurrent_consumption(harness: BlockingHarness) -> None:
    """One consumer per thread; records are acknowledged one by one, by several more threads."""
    harness.produce(1000)
    taken: list[int] = []

    def consume(consumer: ShareConsumer, helpers: ThreadPoolExecutor) -> None:
        deadline = monotonic() + TIMEOUT
        while len(taken) < 1000 and monotonic() < deadline:
            records = consumer.poll(0.05)
            for acknowledgement in helpers.map(Record.accept, records):
                acknowledgement.result(TIMEOUT)
            taken.extend(offsets(records))

    consumers = [harness.consumer(max_poll_records=100) for _ in range(3)]
    with ThreadPoolExecutor(2) as helpers, ThreadPoolExecutor(3) as threads:
        for work in [threads.submit(consume, consumer, helpers) for consumer in consumers]:
            work.result()
    assert sorted(taken) == list(range(1000))


def test_close_releases_the_rest(harness: BlockingHarness) -> None:
    harness.produce(2)
    consumer = harness.consumer(max_poll_records=2, prefetch_records=0)
    records = poll(consumer)
    records[0].accept()
    consumer.close()
    held = [record.offset for record in records[1:]]
    again = poll(harness.consumer())
    assert [record.delivery_count for record in again if record.offset in held] == [2] * len(held)
    assert records[0].offset not in offsets(again)
