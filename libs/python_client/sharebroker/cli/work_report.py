"""The outcome of `sharebroker work`: counts, and the records that were not accepted."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import Any, Final

from sharebroker import KafkaError, Record, Reject, Retry
from sharebroker.cli.output import numbers, print_notice
from sharebroker.cli.session import place
from sharebroker.worker.config import describe_release

MAX_RECORDS: Final = 100_000
"""Records that are stored of each kind; the others are only counted."""

MAX_SHOWN: Final = 100
"""Records of each kind in the summary."""

_TITLES: Final = {
    "rejected": "Rejected",
    "exhausted": "Archived at the delivery limit",
    "unfinished": "Unfinished",
}
Position = tuple[str, int, int]


class WorkReport:
    """Stores outcomes of records and prints failures. A record that is accepted later is finished.

    `delivery_limit` is the delivery count at which the server archives a released record; None: not known.
    """

    def __init__(self, delivery_limit: int | None = None) -> None:
        self._delivery_limit = delivery_limit
        self.counts = Counter(dict.fromkeys(("accepted", "released", "rejected", "exhausted", "refused"), 0))
        self._stored: dict[str, dict[Position, None]] = {kind: {} for kind in _TITLES}
        self._more: Counter[str] = Counter()

    def accepted(self, record: Record) -> None:
        """Counts an accepted record."""
        self.counts["accepted"] += 1
        self._stored["unfinished"].pop(_position(record), None)

    def failed(self, record: Record, failure: Exception) -> None:
        """Counts and prints a rejected or released record."""
        if isinstance(failure, Reject):
            outcome = consequence = kind = "rejected"
        elif self._is_last(record, failure):
            outcome = kind = "exhausted"
            consequence = f"archived at the delivery limit of {self._delivery_limit}"
        else:
            outcome, kind = "released", "unfinished"
            consequence = describe_release(record)
        reason = failure.reason if isinstance(failure, Reject | Retry) else repr(failure)
        self.counts[outcome] += 1
        print_notice(f"{place(record)}, delivery {record.delivery_count}: {reason}; {consequence}.")
        self._stored["unfinished"].pop(_position(record), None)
        self._store(record, kind)

    def _is_last(self, record: Record, failure: Exception) -> bool:
        blameless = isinstance(failure, Retry) and failure.blameless
        return not blameless and 0 < (self._delivery_limit or 0) <= record.delivery_count

    def unconfirmed(self, record: Record, error: KafkaError) -> None:
        """Counts a record whose acknowledgement the server did not confirm."""
        self.counts["refused"] += 1
        print_notice(f"{place(record)}: {error.message}")
        self._store(record, "unfinished")

    def _store(self, record: Record, kind: str) -> None:
        stored = self._stored[kind]
        if len(stored) < MAX_RECORDS:
            stored[_position(record)] = None
        elif _position(record) not in stored:
            self._more[kind] += 1

    @property
    def incomplete(self) -> bool:
        """Whether a record was rejected, archived at the delivery limit, or left unfinished."""
        return any(self._stored.values()) or bool(self._more)

    def document(self) -> dict[str, Any]:
        """Returns the summary as plain values."""
        document: dict[str, Any] = dict(self.counts)
        for kind in _TITLES:
            shown, omitted = self._shown(kind)
            document[f"{kind}_records"] = [
                {"topic": topic, "partition": partition, "offset": offset}
                for topic, partition, offset in shown
            ]
            document[f"{kind}_records_omitted"] = omitted
        return document

    def text(self) -> str:
        """Returns the summary for people, one line per kind of outcome."""
        counts = ", ".join(f"{outcome} {count}" for outcome, count in self.counts.items())
        lines = [f"{counts.capitalize()}."]
        for kind, title in _TITLES.items():
            shown, omitted = self._shown(kind)
            parts = _places(shown) + ([f"and {omitted} more"] if omitted else [])
            if parts:
                lines.append(f"{title}: {'; '.join(parts)}.")
        return "\n".join(lines)

    def _shown(self, kind: str) -> tuple[list[Position], int]:
        """Returns the first records of a kind, and the number of the others."""
        stored = self._stored[kind]
        return list(islice(stored, MAX_SHOWN)), max(0, len(stored) - MAX_SHOWN) + self._more[kind]


def _position(record: Record) -> Position:
    return record.topic, record.partition, record.offset


def _places(positions: list[Position]) -> list[str]:
    """Formats positions by partition: "orders, partition 0, offsets 1-3, 7"."""
    offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
    for topic, partition, offset in positions:
        offsets[topic, partition].append(offset)
    return [
        f"{topic}, partition {partition}, offset{'s' if len(found) > 1 else ''} {numbers(found)}"
        for (topic, partition), found in sorted(offsets.items())
    ]
