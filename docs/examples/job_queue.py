"""A job queue: jobs are functions by name, failed jobs are retried, and hopeless ones become dead letters."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from sharebroker import Admin, Producer, Record, Reject, Retry, ShareConsumer, Worker, WorkerConfig

TOPIC, GROUP, LETTERS = "jobs", "job-workers", "dlq.jobs"
JOBS: dict[str, Callable[..., Any]] = {}


def job(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a function as a job."""
    JOBS[function.__name__] = function
    return function


def set_up(server: str, attempts: int = 5) -> None:
    """Creates the topics, and lets the group try a job `attempts` times before it writes a dead letter."""
    with Admin(server) as admin:
        admin.create_topic(TOPIC, 4, {"delivery.delay.enable": "true"})
        admin.create_topic(LETTERS, 1, {"errors.deadletterqueue.group.enable": "true"})
        admin.alter_group_configs(
            GROUP,
            {
                "share.auto.offset.reset": "earliest",
                "share.delivery.count.limit": str(attempts),
                "errors.deadletterqueue.topic.name": LETTERS,
                "errors.deadletterqueue.copy.record.enable": "true",
            },
        )


def enqueue(producer: Producer, name: str, /, *, delay: float | None = None, **arguments: Any) -> None:
    """Queues a job that starts after `delay` seconds. The job is stored when the producer is flushed."""
    value = json.dumps({"name": name, "arguments": arguments}).encode()
    producer.send(TOPIC, value, deliver_after=delay)


def perform(record: Record) -> None:
    """Runs the job of a record. An exception of the job repeats it after a growing delay."""
    content = json.loads(record.value or b"{}")
    function = JOBS.get(content.get("name"))
    if function is None:
        raise Reject(f"there is no job {content.get('name')!r}")
    try:
        function(**content["arguments"])
    except ConnectionError as error:
        raise Retry(1.0, str(error), blameless=True) from error  # not the fault of the job: no attempt


def work(server: str, concurrency: int = 8, idle_timeout: float | None = None) -> None:
    """Runs jobs until SIGTERM, or until there are none for `idle_timeout` seconds."""

    def log(record: Record, error: Exception) -> None:
        logging.warning("attempt %d of %s: %s", record.delivery_count, record.value, error)

    config = WorkerConfig(
        concurrency=concurrency, backoff=0.5, backoff_max=60, idle_timeout=idle_timeout, on_failure=log
    )
    Worker(server, GROUP, [TOPIC], perform, config).run()


def dead_jobs(server: str, timeout: float) -> Iterator[Any]:
    """Returns the dead jobs that were not returned before, until none follows within `timeout` seconds."""
    with Admin(server) as admin:
        admin.alter_group_configs("undertakers", {"share.auto.offset.reset": "earliest"})
    with ShareConsumer(server, "undertakers", [LETTERS]) as consumer:
        while records := consumer.poll(timeout=timeout):
            for record in records:
                record.accept()
                yield json.loads(record.value or b"null")
            consumer.commit()
