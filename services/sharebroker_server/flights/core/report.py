"""What a worker tells the supervisor, a JSON line each: records it was handed, then how its answers fared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from sharebroker_server.flights.core.flight import Answer
from sharebroker_server.flights.core.ledger import Delivery, Ledger, Place


def handed_out(batch: int, at: float, deliveries: Iterable[Delivery]) -> bytes:
    """These were received at `at` and are about to be answered."""
    return (
        orjson.dumps({"batch": batch, "at": at, "got": [tuple(delivery) for delivery in deliveries]}) + b"\n"
    )


def confirmed(batch: int, at: float, failed: Mapping[Place, bool]) -> bytes:
    """The answers of a batch are durable, save `failed` (see `Ledger.confirmed`)."""
    places = [(*place, lost) for place, lost in failed.items()]
    return orjson.dumps({"batch": batch, "at": at, "failed": places}) + b"\n"


def enter(line: bytes, worker: str, ledger: Ledger) -> None:
    """Books a line of a worker. Raises ValueError for what is not a report."""
    report = orjson.loads(line)
    batch = (worker, report["batch"])
    if "got" in report:
        ledger.handed_out(batch, report["at"], [_delivery(*fields) for fields in report["got"]])
    else:
        failed = {(partition, offset): lost for partition, offset, lost in report["failed"]}
        ledger.confirmed(batch, report["at"], failed)


def _delivery(
    partition: int, offset: int, attempt: int, answer: str, carrier: str, route: str, *delay: int
) -> Delivery:
    return Delivery(partition, offset, attempt, Answer(answer), carrier, route, *delay)
