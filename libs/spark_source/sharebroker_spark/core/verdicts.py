"""What a job says of single records: which batch it is about, and runs of offsets for the server."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

KINDS: Final = {"accept": 1, "release": 2, "reject": 3}
"""Names of verdicts, and their AcknowledgeType."""


_RANGE: Final = "range"


class VerdictError(ValueError):
    """Rows that cannot be verdicts; the text says why."""


class Span(NamedTuple):
    """Offsets first..last of a partition, which are of a batch."""

    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BatchToken:
    """Which batch of which session, and where its server is."""

    bootstrap: str
    group: str
    session: str
    epoch: int
    name: str
    waits: bool

    @property
    def number(self) -> int:
        """The batch's, which counts up in its session."""
        return int(self.name.partition("-")[0])

    def column(self, span: Span) -> str:
        """What the column `batch` holds in the rows of a span."""
        return json.dumps({**asdict(self), _RANGE: span}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> tuple[BatchToken, Span]:
        """From the column. Raises VerdictError."""
        try:
            fields = json.loads(text)
            span = Span(*fields.pop(_RANGE))
            return cls(**fields), span
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise VerdictError(
                f"column batch holds {text!r}: it must be handed on as the stream gave it"
            ) from error


class Newest:
    """The newest batch of each session that was spoken of here: once it was, those before are done."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str, str], BatchToken] = {}

    def check(self, token: BatchToken) -> None:
        """Raises VerdictError for a batch that is done."""
        key = (token.bootstrap, token.group, token.session)
        newest = self._tokens.get(key, token)
        if newest.epoch == token.epoch and newest.number > token.number:
            raise VerdictError(
                f"batch {token.number} is done, verdicts about batch {newest.number} were given since: "
                "nothing can be said of its records now"
            )
        self._tokens[key] = token


class Row(NamedTuple):
    """A record and what is said of it."""

    topic: str
    partition: int
    offset: int
    verdict: str


class Said(NamedTuple):
    """Offsets first..last of a partition, and what is said of them (an AcknowledgeType)."""

    topic: str
    partition: int
    first: int
    last: int
    kind: int


def runs(rows: Iterable[Row]) -> list[Said]:
    """Neighbours of which the same is said, as one; in order.

    Raises VerdictError for a null, a verdict that there is not, and a record of which two things are said.
    """
    found: list[Said] = []
    for topic, partition, offset, kind in sorted(set(map(_checked, rows))):
        last = found[-1] if found else None
        if last is not None and last[:2] == (topic, partition):
            if last.last == offset:
                raise VerdictError(f"two different verdicts about offset {offset} of {topic}-{partition}")
            if (last.last + 1, last.kind) == (offset, kind):
                found[-1] = last._replace(last=offset)
                continue
        found.append(Said(topic, partition, offset, offset, kind))
    return found


def check_of_batch(rows: Iterable[Row], spans: Iterable[Span]) -> None:
    """Raises VerdictError for a row that is in none of these spans of its batch."""
    by_partition: dict[tuple[str, int], list[Span]] = {}
    for span in sorted(spans):
        by_partition.setdefault(span[:2], []).append(span)
    for row in rows:
        if not _within(row.offset, by_partition.get(row[:2], ())):
            raise VerdictError(
                f"offset {row.offset} of {row.topic}-{row.partition} is not of the batch that column "
                "batch says: topic, partition, offset and batch must be handed on as the stream gave them"
            )


def _within(offset: int, spans: Sequence[Span]) -> bool:
    """Whether one of these spans of a partition has it, which ascend and lie apart."""
    index = bisect_right(spans, offset, key=lambda span: span.first)
    return index > 0 and offset <= spans[index - 1].last


def _checked(row: Row) -> tuple[str, int, int, int]:
    if None in row:
        raise VerdictError(f"a null where a verdict needs a value: {row}")
    kind = KINDS.get(row.verdict.lower())
    if kind is None:
        raise VerdictError(f"verdict is {row.verdict!r}; it must be {', '.join(KINDS)}")
    return row.topic, row.partition, row.offset, kind
