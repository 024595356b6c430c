"""The reports of a worker to the supervisor, one JSON line each: deliveries, then the acknowledgement
results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from sharebroker_server.flights.core.flight import Acknowledgement
from sharebroker_server.flights.core.ledger import Delivery, Ledger, RecordId


def delivered(batch: int, at: float, deliveries: Iterable[Delivery]) -> bytes:
    """Returns the report of records received at `at`, which are acknowledged next."""
    return (
        orjson.dumps({"batch": batch, "at": at, "got": [tuple(delivery) for delivery in deliveries]}) + b"\n"
    )


def confirmed(batch: int, at: float, failed: Mapping[RecordId, bool]) -> bytes:
    """Returns the report that a batch's acknowledgements are durable, except `failed` (see
    `Ledger.confirmed`).
    """
    record_ids = [(*record_id, lost) for record_id, lost in failed.items()]
    return orjson.dumps({"batch": batch, "at": at, "failed": record_ids}) + b"\n"


def add_report(line: bytes, worker: str, ledger: Ledger) -> None:
    """Adds a report to the ledger. Raises ValueError if the line is invalid."""
    report = orjson.loads(line)
    batch = (worker, report["batch"])
    if "got" in report:
        ledger.delivered(batch, report["at"], [_delivery(*fields) for fields in report["got"]])
    else:
        failed = {(partition, offset): lost for partition, offset, lost in report["failed"]}
        ledger.confirmed(batch, report["at"], failed)


def _delivery(
    partition: int,
    offset: int,
    delivery_count: int,
    acknowledgement: str,
    carrier: str,
    route: str,
    *delay: int,
) -> Delivery:
    return Delivery(
        partition, offset, delivery_count, Acknowledgement(acknowledgement), carrier, route, *delay
    )
