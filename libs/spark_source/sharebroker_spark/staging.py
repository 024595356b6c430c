"""Verdicts about single records, from within a job."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_spark.client import Client, shared
from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.verdicts import (
    KINDS,
    BatchToken,
    Newest,
    Row,
    Said,
    Span,
    VerdictError,
    check_of_batch,
    runs,
)

_log = logging.getLogger(__name__)
_newest: Final = Newest()
_WORTH_TELLING: Final = 5
_COLUMNS: Final = {
    "topic": ("string",),
    "partition": ("int",),
    "offset": ("bigint",),
    "verdict": ("string",),
    "batch": ("string",),
}


def verdicts(df: Any) -> dict[str, int]:
    """Stage what rows (topic, partition, offset, verdict, batch) say of records; how often what was said.

    `verdict` is accept, release (another try) or reject; what is not spoken of is accepted. `batch` is the
    stream's column of this name, which option `verdicts` adds. For foreachBatch: durable on return, in force
    with the batch, once Spark has recorded that as done; a batch that is worked on again begins without
    verdicts. Raises VerdictError for rows that cannot be, KafkaError.
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
    said = {token: _said(some, spans) for token, some, spans in _by_batch(by_text)}
    for token in said:
        _newest.check(token)
    for token, some in said.items():
        stage(shared(token.bootstrap, waits=token.waits), token, some)
    return dict(Counter(row.verdict.lower() for some in by_text.values() for row in some))


def _by_batch(by_text: Mapping[str, Sequence[Row]]) -> list[tuple[BatchToken, list[Row], list[Span]]]:
    """The rows of each batch, and what of it their columns name. Raises VerdictError."""
    found: dict[BatchToken, tuple[list[Row], list[Span]]] = {}
    for text, some in by_text.items():
        token, span = BatchToken.parse(text)
        rows, spans = found.setdefault(token, ([], []))
        rows += some
        spans.append(span)
    return [(token, *each) for token, each in found.items()]


def _said(rows: Sequence[Row], spans: Sequence[Span]) -> list[Said]:
    said = runs(rows)
    check_of_batch(rows, spans)
    return said


def stage(client: Client, token: BatchToken, said: Iterable[Said]) -> None:
    """Have the server keep what is said until the batch is done. Raises KafkaError."""
    request = pb.StageRequest(
        session=pb.PlanSession(group_id=token.group, session_id=token.session, epoch=token.epoch),
        batch=token.name,
        verdicts=[
            pb.PlanVerdict(
                range=pb.PlanRange(
                    topic=one.topic, partition=one.partition, first_offset=one.first, last_offset=one.last
                ),
                type=delivery.AcknowledgeType.ValueType(one.kind),
            )
            for one in said
        ],
    )
    client.call(client.plans.Stage, request)


class LeftOut:
    """Records of a task whose value cannot be read, rejected with the batch. `token` None: only told."""

    def __init__(self, client: Client, token: BatchToken | None) -> None:
        self._client = client
        self._token = token
        self._said: list[Said] = []

    def add(self, one: Range) -> None:
        """Leave offsets out."""
        self._said.append(Said(one.topic, one.partition, one.first, one.last, KINDS["reject"]))

    def stage(self) -> None:
        """Have the server keep what was left out since the last time. Raises KafkaError."""
        if not self._said:
            return
        some = ", ".join(f"{one.topic}-{one.partition} {one.first}" for one in self._said[:_WORTH_TELLING])
        _log.warning("left out %d records whose value cannot be read: %s", len(self._said), some)
        if self._token is not None:
            stage(self._client, self._token, self._said)
        self._said = []
