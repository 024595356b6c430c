"""Stages verdicts on single records from within a job."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_spark.client import GatewayClient, shared
from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.verdicts import (
    KINDS,
    BatchSpan,
    BatchToken,
    NewestBatches,
    Row,
    VerdictError,
    VerdictRange,
    check_of_batch,
    verdict_ranges,
)

_log = logging.getLogger(__name__)
_newest_batches: Final = NewestBatches()
_MAX_LISTED: Final = 5
_COLUMNS: Final = {
    "topic": ("string",),
    "partition": ("int",),
    "offset": ("bigint",),
    "verdict": ("string",),
    "batch": ("string",),
}


def verdicts(df: Any) -> dict[str, int]:
    """Stages the verdicts of rows (topic, partition, offset, verdict, batch).

    Returns the count of each verdict.

    `verdict` is accept, release (redeliver) or reject; records without a verdict are accepted. `batch` is the
    stream's column of this name, which option `verdicts` adds. For use in foreachBatch. Verdicts are durable
    on return and take effect when Spark has completed the batch. A repeated batch starts without verdicts.
    Raises VerdictError for invalid rows, KafkaError.
    """
    types = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    for name, allowed in _COLUMNS.items():
        if types.get(name) not in allowed:
            raise VerdictError(
                f"column {name} is {types.get(name, 'missing')}; it must be {' or '.join(allowed)}"
                + (" (read the stream with option verdicts=true)" if name == "batch" else "")
            )
    table = df.select(*_COLUMNS).toArrow()
    rows = zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True)
    by_text: dict[str, list[Row]] = {}
    for *row, batch in rows:
        by_text.setdefault(batch, []).append(Row(*row))
    verdicts_by_batch = {
        token: _checked_ranges(batch_rows, spans) for token, batch_rows, spans in _by_batch(by_text)
    }
    for token in verdicts_by_batch:
        _newest_batches.check(token)
    for token, batch_rows in verdicts_by_batch.items():
        stage(shared(token.bootstrap, waits=token.waits), token, batch_rows)
    return dict(Counter(row.verdict.lower() for batch_rows in by_text.values() for row in batch_rows))


def _by_batch(by_text: Mapping[str, Sequence[Row]]) -> list[tuple[BatchToken, list[Row], list[BatchSpan]]]:
    """Returns the rows of each batch, and the spans of its batch columns. Raises VerdictError."""
    found: dict[BatchToken, tuple[list[Row], list[BatchSpan]]] = {}
    for text, batch_rows in by_text.items():
        token, span = BatchToken.parse(text)
        rows, spans = found.setdefault(token, ([], []))
        rows += batch_rows
        spans.append(span)
    return [(token, *rows_and_spans) for token, rows_and_spans in found.items()]


def _checked_ranges(rows: Sequence[Row], spans: Sequence[BatchSpan]) -> list[VerdictRange]:
    verdicts_by_batch = verdict_ranges(rows)
    check_of_batch(rows, spans)
    return verdicts_by_batch


def stage(client: GatewayClient, token: BatchToken, verdicts_by_batch: Iterable[VerdictRange]) -> None:
    """Stores verdicts on the server until the batch is committed. Raises KafkaError."""
    request = pb.StageRequest(
        session=pb.PlanSession(group_id=token.group, session_id=token.session, epoch=token.epoch),
        batch=token.name,
        verdicts=[
            pb.PlanVerdict(
                range=pb.PlanRange(
                    topic=verdict.topic,
                    partition=verdict.partition,
                    first_offset=verdict.first,
                    last_offset=verdict.last,
                ),
                type=delivery.AcknowledgeType.ValueType(verdict.kind),
            )
            for verdict in verdicts_by_batch
        ],
    )
    client.call(client.plans.Stage, request)


class LeftOut:
    """Rejects records of a task whose value cannot be decoded. Without `token` they are only logged."""

    def __init__(self, client: GatewayClient, token: BatchToken | None) -> None:
        self._client = client
        self._token = token
        self._checked_ranges: list[VerdictRange] = []

    def add(self, verdict: Range) -> None:
        """Leaves offsets out."""
        self._checked_ranges.append(
            VerdictRange(verdict.topic, verdict.partition, verdict.first, verdict.last, KINDS["reject"])
        )

    def stage(self) -> None:
        """Stages what was left out since the last call. Raises KafkaError."""
        if not self._checked_ranges:
            return
        batch_rows = ", ".join(
            f"{verdict.topic}-{verdict.partition} {verdict.first}"
            for verdict in self._checked_ranges[:_MAX_LISTED]
        )
        _log.warning("rejected %d records with undecodable values: %s", len(self._checked_ranges), batch_rows)
        if self._token is not None:
            stage(self._client, self._token, self._checked_ranges)
        self._checked_ranges = []
