"""A worker process. It runs until its input ends.

Usage: `python -m sharebroker_server.flights.worker SERVER GROUP TOPIC NAME`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from sharebroker.aio.consumer import ShareConsumer
from sharebroker.client_errors import WakeupError
from sharebroker.consumer.config import ConsumerConfig
from sharebroker.consumer.poll_batch import RecordResult
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.records.record import Record
from sharebroker_server.flights.core import report
from sharebroker_server.flights.core.flight import Answer, Flight, judge
from sharebroker_server.flights.core.ledger import Delivery, Place

_PATIENCE: Final = 60.0


def main() -> None:
    """Runs the worker."""
    server, group, topic, name = sys.argv[1:]
    asyncio.run(run(server, group, topic, name))


async def run(server: str, group: str, topic: str, name: str) -> None:
    """Answers for records until standard input ends."""
    config = ConsumerConfig(client_id=name)
    async with ShareConsumer(server, group, [topic], config) as consumer:
        when_input_ends(consumer.wakeup)
        with contextlib.suppress(WakeupError):
            for batch in itertools.count(1):
                await work_off(consumer, batch)


def when_input_ends(act: Callable[[], None]) -> None:
    """Calls `act` from a thread once nobody holds the other end of standard input."""

    def wait() -> None:
        sys.stdin.buffer.read()
        act()

    threading.Thread(target=wait, daemon=True).start()


async def work_off(consumer: ShareConsumer, batch: int) -> None:
    """One poll: judges the records, tells the supervisor, answers, and tells how the answers fared."""
    records = await consumer.poll(_PATIENCE)
    if not records:
        return
    judged = [judged_record(record) for record in records]
    tell(report.handed_out(batch, time.monotonic(), [delivery for delivery, _ in judged]))
    for record, (delivery, reason) in zip(records, judged, strict=True):
        answer(record, delivery.answer, reason)
    results = await consumer.commit()
    tell(report.confirmed(batch, time.monotonic(), failures(results)))


def judged_record(record: Record) -> tuple[Delivery, str]:
    """What to answer for a record, with its delays, and why."""
    flight = Flight.of_payload(record.value or b"")
    verdict, reason = judge(flight, record.delivery_count)
    route = f"{flight.origin}-{flight.dest}"
    minutes = (flight.dep_delay or 0, flight.arr_delay or 0)
    place = (record.partition, record.offset, record.delivery_count)
    return Delivery(*place, verdict, flight.carrier, route, *minutes), reason


def answer(record: Record, verdict: Answer, reason: str) -> None:
    """Acknowledges a record."""
    if verdict is Answer.ACCEPT:
        record.accept()
    elif verdict is Answer.RELEASE:
        record.release()
    else:
        record.reject(reason)


def failures(results: Sequence[RecordResult]) -> dict[Place, bool]:
    """Answers that failed: True where the lock was lost, False where the outcome is unknown."""
    return {
        (result.partition, result.offset): result.error.code is ErrorCode.INVALID_RECORD_STATE
        for result in results
        if result.error is not None
    }


def tell(line: bytes) -> None:
    """A line for the supervisor, at once: the process may be killed at any moment."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
