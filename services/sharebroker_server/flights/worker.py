"""A worker process, which runs until its standard input ends.

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

from sharebroker import ConsumerConfig, ErrorCode, Record, RecordResult, WakeupError
from sharebroker.aio import ShareConsumer
from sharebroker_server.flights.core.flight import Flight, FlightAcknowledgement, judge
from sharebroker_server.flights.core.ledger import FlightDelivery, RecordId, confirmed, delivered

_POLL_SECONDS: Final = 60.0


def main() -> None:
    """Runs the worker."""
    server, group, topic, name = sys.argv[1:]
    asyncio.run(run(server, group, topic, name))


async def run(server: str, group: str, topic: str, name: str) -> None:
    """Acknowledges records until standard input ends."""
    config = ConsumerConfig(client_id=name)
    async with ShareConsumer(server, group, [topic], config) as consumer:
        when_input_ends(consumer.wakeup)
        with contextlib.suppress(WakeupError):
            for batch in itertools.count(1):
                await process_batch(consumer, batch)


def when_input_ends(callback: Callable[[], None]) -> None:
    """Calls `callback` from a thread when standard input is closed."""

    def wait() -> None:
        sys.stdin.buffer.read()
        callback()

    threading.Thread(target=wait, daemon=True).start()


async def process_batch(consumer: ShareConsumer, batch: int) -> None:
    """Polls once: reports the deliveries, acknowledges the records, and reports the results."""
    records = await consumer.poll(_POLL_SECONDS)
    if not records:
        return
    judgements = [judged_record(record) for record in records]
    write_report(delivered(batch, time.monotonic(), [delivery for delivery, _ in judgements]))
    for record, (delivery, reason) in zip(records, judgements, strict=True):
        acknowledge(record, delivery.acknowledgement, reason)
    results = await consumer.commit()
    write_report(confirmed(batch, time.monotonic(), failures(results)))


def judged_record(record: Record) -> tuple[FlightDelivery, str]:
    """Returns the delivery of a record with its acknowledgement, and the reason."""
    flight = Flight.of_payload(record.value or b"")
    acknowledgement, reason = judge(flight, record.delivery_count)
    route = f"{flight.origin}-{flight.dest}"
    minutes = (flight.dep_delay or 0, flight.arr_delay or 0)
    record_id = (record.partition, record.offset, record.delivery_count)
    return FlightDelivery(*record_id, acknowledgement, flight.carrier, route, *minutes), reason


def acknowledge(record: Record, acknowledgement: FlightAcknowledgement, reason: str) -> None:
    """Acknowledges a record."""
    if acknowledgement is FlightAcknowledgement.ACCEPT:
        record.accept()
    elif acknowledgement is FlightAcknowledgement.RELEASE:
        record.release()
    else:
        record.reject(reason)


def failures(results: Sequence[RecordResult]) -> dict[RecordId, bool]:
    """Returns the failed acknowledgements: True if the lock was lost, False if the outcome is unknown."""
    return {
        (result.partition, result.offset): result.error.code is ErrorCode.INVALID_RECORD_STATE
        for result in results
        if result.error is not None
    }


def write_report(line: bytes) -> None:
    """Writes a line for the supervisor and flushes it: the process may be killed at any moment."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
