"""A worker process: one function per record, retries with a growing delay, and a graceful end on SIGTERM."""

import json
import logging
import os

from sharebroker import Admin, ErrorCode, KafkaError, Record, Reject, Retry, Worker, WorkerConfig

TOPIC, GROUP = "thumbnails", "resizers"


class StoreBusyError(Exception):
    """The image store accepts no image at the moment."""


def resize(path: str, width: int) -> None:
    """Stands for the work."""
    logging.info("resized %s to %d pixels", path, width)


def handle(record: Record) -> None:
    """Processes one record. It is accepted if this function returns."""
    try:
        job = json.loads(record.value or b"")
        path, width = str(job["path"]), int(job["width"])
    except (KeyError, TypeError, ValueError) as error:
        raise Reject(f"not a job: {error}") from error  # it would fail again: never deliver it again
    try:
        resize(path, width)
    except StoreBusyError as error:
        raise Retry(5.0, str(error), blameless=True) from error  # does not count as an attempt
    # Any other exception releases the record, which is delivered again after the backoff.


def set_up(server: str) -> None:
    """Creates the topic if it does not exist, and lets the group start at the first record."""
    with Admin(server) as admin:
        try:
            admin.create_topic(TOPIC, 4)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        admin.alter_group_configs(GROUP, {"share.auto.offset.reset": "earliest"})


def work(server: str, idle_timeout: float | None = None) -> None:
    """Runs until SIGTERM, or until there are no records for `idle_timeout` seconds."""

    def log(record: Record, error: Exception) -> None:
        logging.warning("attempt %d of offset %d: %s", record.delivery_count, record.offset, error)

    config = WorkerConfig(
        concurrency=8, backoff=1, backoff_max=60, max_failures=100, idle_timeout=idle_timeout, on_failure=log
    )
    Worker(server, GROUP, [TOPIC], handle, config).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    address = os.environ.get("SHAREBROKER_SERVER", "127.0.0.1:9090")
    set_up(address)
    work(address)
