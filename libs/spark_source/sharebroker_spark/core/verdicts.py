"""Verdicts on single records: the batch they belong to, and ranges of offsets for the server."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

KINDS: Final = {"accept": 1, "release": 2, "reject": 3}
"""Verdict names and their AcknowledgeType."""


_RANGE: Final = "range"


class VerdictError(ValueError):
    """Rows that are invalid as verdicts; the text names the reason."""


class BatchSpan(NamedTuple):
    """Offsets first..last of a partition in one batch."""

    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BatchToken:
    """Identifies a batch, its session and its server."""

    bootstrap: str
    group: str
    session: str
    epoch: int
    name: str
    waits: bool

    @property
    def number(self) -> int:
        """The number of the batch, which increases within its session."""
        return int(self.name.partition("-")[0])

    def column(self, span: BatchSpan) -> str:
        """Returns the value of the column `batch` in the rows of a span."""
        return json.dumps({**asdict(self), _RANGE: span}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> tuple[BatchToken, BatchSpan]:
        """Returns token and span of a column value. Raises VerdictError."""
        try:
            fields = json.loads(text)
            span = BatchSpan(*fields.pop(_RANGE))
            return cls(**fields), span
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise VerdictError(f"column batch holds {text!r}: it must be passed on unchanged") from error


class NewestBatches:
    """The newest batch with verdicts per session: earlier batches of the session are done."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str, str], BatchToken] = {}

    def check(self, token: BatchToken) -> None:
        """Raises VerdictError for a batch that is done."""
        key = (token.bootstrap, token.group, token.session)
        newest = self._tokens.get(key, token)
        if newest.epoch == token.epoch and newest.number > token.number:
            raise VerdictError(
                f"batch {token.number} is done, since batch {newest.number} already has verdicts: "
                "its records can no longer be released or rejected"
            )
        self._tokens[key] = token


class Row(NamedTuple):
    """A record and its verdict."""

    topic: str
    partition: int
    offset: int
    verdict: str


class VerdictRange(NamedTuple):
    """Offsets first..last of a partition and their verdict (an AcknowledgeType)."""

    topic: str
    partition: int
    first: int
    last: int
    kind: int


def verdict_ranges(rows: Iterable[Row]) -> list[VerdictRange]:
    """Returns the verdicts as ranges, in order; adjacent offsets with one verdict share a range.

    Raises VerdictError for a null, an unknown verdict, and a record with two verdicts.
    """
    found: list[VerdictRange] = []
    for topic, partition, offset, kind in sorted(set(map(_checked, rows))):
        last = found[-1] if found else None
        if last is not None and last[:2] == (topic, partition):
            if last.last == offset:
                raise VerdictError(f"two different verdicts for offset {offset} of {topic}-{partition}")
            if (last.last + 1, last.kind) == (offset, kind):
                found[-1] = last._replace(last=offset)
                continue
        found.append(VerdictRange(topic, partition, offset, offset, kind))
    return found


def check_of_batch(rows: Iterable[Row], spans: Iterable[BatchSpan]) -> None:
    """Raises VerdictError for a row outside the spans of its batch."""
    by_partition: dict[tuple[str, int], list[BatchSpan]] = {}
    for span in sorted(spans):
        by_partition.setdefault(span[:2], []).append(span)
    for row in rows:
        if not _within(row.offset, by_partition.get(row[:2], ())):
            raise VerdictError(
                f"offset {row.offset} of {row.topic}-{row.partition} is not in the batch of column batch: "
                "topic, partition, offset and batch must be passed on unchanged"
            )


def _within(offset: int, spans: Sequence[BatchSpan]) -> bool:
    """Returns whether a span of a partition contains the offset; spans are ascending and disjoint."""
    index = bisect_right(spans, offset, key=lambda span: span.first)
    return index > 0 and offset <= spans[index - 1].last


def _checked(row: Row) -> tuple[str, int, int, int]:
    if None in row:
        raise VerdictError(f"a verdict has a null value: {row}")
    kind = KINDS.get(row.verdict.lower())
    if kind is None:
        raise VerdictError(f"verdict is {row.verdict!r}; it must be {', '.join(KINDS)}")
    return row.topic, row.partition, row.offset, kind
