"""A Celery task as a worker of a share group.

Before:

    app = Celery("receipts", broker="redis://localhost")
    app.conf.task_acks_late = True

    @app.task(autoretry_for=(ConnectionError,), retry_backoff=True, max_retries=5)
    def send_receipt(order_id: int, address: str) -> None: ...

    send_receipt.apply_async((17, "ada@example.org"), countdown=60)

After: the function stays as it is. `handle` calls it with the arguments of a record, `delay` publishes them.
"""

import json

from sharebroker import Admin, Producer, Record, Reject, Worker, WorkerConfig

TOPIC, GROUP = "receipts", "receipt-workers"
SENT: list[tuple[int, str]] = []


def send_receipt(order_id: int, address: str) -> None:
    """The task, without a decorator: it can be called and tested like any function."""
    SENT.append((order_id, address))


def delay(producer: Producer, order_id: int, address: str, countdown: float | None = None) -> None:
    """Replaces `send_receipt.delay` and `apply_async`."""
    arguments = json.dumps({"order_id": order_id, "address": address}).encode()
    # The message id makes a second receipt for the same order a duplicate; Celery has no such rule.
    producer.send(TOPIC, arguments, message_id=f"order-{order_id}", deliver_after=countdown)


def handle(record: Record) -> None:
    """Runs the task. Like `autoretry_for` of all exceptions with `retry_backoff`."""
    try:
        arguments = json.loads(record.value or b"")
    except ValueError as error:
        raise Reject(str(error)) from error
    send_receipt(**arguments)


def set_up(server: str) -> None:
    """Replaces the configuration of the Celery app: `max_retries`, and what happens afterwards."""
    with Admin(server) as admin:
        admin.create_topic(TOPIC, 4, {"delivery.delay.enable": "true", "message.dedup.window.ms": "3600000"})
        admin.alter_group_configs(
            # The limit counts the first attempt as well.
            GROUP,
            {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "6"},
        )


def work(server: str, idle_timeout: float | None = None) -> None:
    """Replaces `celery -A receipts worker -c 4`."""
    config = WorkerConfig(concurrency=4, backoff=1, backoff_max=600, idle_timeout=idle_timeout)
    Worker(server, GROUP, [TOPIC], handle, config).run()
