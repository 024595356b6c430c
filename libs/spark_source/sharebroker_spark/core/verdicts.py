"""What a job says of single records: which batch it is about, and runs of offsets for the server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

KINDS: Final = {"accept": 1, "release": 2, "reject": 3}
"""Names of verdicts, and their AcknowledgeType."""


class VerdictError(ValueError):
    """Rows that cannot be verdicts; the text says why."""


@dataclass(frozen=True, slots=True)
class BatchToken:
    """Which batch of which session, and where its server is: what the column `batch` holds, as text."""

    bootstrap: str
    group: str
    session: str
    epoch: int
    name: str
    waits: bool

    def text(self) -> str:
        """The column."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> BatchToken:
        """From the column. Raises VerdictError."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise VerdictError(
                f"column batch holds {text!r}: it must be handed on as the stream gave it"
            ) from error


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


def _checked(row: Row) -> tuple[str, int, int, int]:
    if None in row:
        raise VerdictError(f"a null where a verdict needs a value: {row}")
    kind = KINDS.get(row.verdict.lower())
    if kind is None:
        raise VerdictError(f"verdict is {row.verdict!r}; it must be {', '.join(KINDS)}")
    return row.topic, row.partition, row.offset, kind
