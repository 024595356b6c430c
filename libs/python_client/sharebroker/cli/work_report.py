"""The outcome of `sharebroker work`: counts, and the records that were rejected or left unfinished."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

from sharebroker import KafkaError, Record, Reject, Retry
from sharebroker.cli.output import numbers, print_notice
from sharebroker.cli.session import place

MAX_RECORDS: Final = 100_000
"""Records that are stored of each kind; the others are only counted."""

MAX_SHOWN: Final = 100
"""Records of each kind in the summary."""

Position = tuple[str, int, int]


class WorkReport:
    """Stores outcomes of records and prints failures. A record that is accepted later is finished."""

    def __init__(self) -> None:
        self.counts = Counter(dict.fromkeys(("accepted", "released", "rejected", "refused"), 0))
        self._rejected: dict[Position, None] = {}
        self._unfinished: dict[Position, None] = {}
        self._more: Counter[str] = Counter()

    def accepted(self, record: Record) -> None:
        """Counts an accepted record."""
        self.counts["accepted"] += 1
        self._unfinished.pop(_position(record), None)

    def failed(self, record: Record, failure: Exception) -> None:
        """Counts and prints a rejected or released record."""
        rejected = isinstance(failure, Reject)
        reason = failure.reason if isinstance(failure, Reject | Retry) else repr(failure)
        self.counts["rejected" if rejected else "released"] += 1
        print_notice(f"{place(record)}, delivery {record.delivery_count}: {reason}; {_consequence(record)}.")
        self._unfinished.pop(_position(record), None)
        self._store(record, "rejected" if rejected else "unfinished")

    def unconfirmed(self, record: Record, error: KafkaError) -> None:
        """Counts a record whose acknowledgement the server did not confirm."""
        self.counts["refused"] += 1
        print_notice(f"{place(record)}: {error.message}")
        self._store(record, "unfinished")

    def _store(self, record: Record, kind: str) -> None:
        stored = self._rejected if kind == "rejected" else self._unfinished
        if len(stored) < MAX_RECORDS:
            stored[_position(record)] = None
        elif _position(record) not in stored:
            self._more[kind] += 1

    @property
    def incomplete(self) -> bool:
        """Whether a record was rejected or left unfinished."""
        return bool(self._rejected or self._unfinished or self._more)

    def document(self) -> dict[str, Any]:
        """Returns the summary as plain values."""
        kinds = {"rejected": self._rejected, "unfinished": self._unfinished}
        return {
            **self.counts,
            **{
                f"{kind}_records": [
                    {"topic": topic, "partition": partition, "offset": offset}
                    for topic, partition, offset in list(stored)[:MAX_SHOWN]
                ]
                for kind, stored in kinds.items()
            },
            **{
                f"{kind}_records_omitted": max(0, len(stored) - MAX_SHOWN) + self._more[kind]
                for kind, stored in kinds.items()
            },
        }

    def text(self) -> str:
        """Returns the summary for people, one line per kind of outcome."""
        counts = ", ".join(f"{outcome} {count}" for outcome, count in self.counts.items())
        lines = [f"{counts.capitalize()}."]
        for kind, stored in (("rejected", self._rejected), ("unfinished", self._unfinished)):
            if not stored:
                continue
            omitted = max(0, len(stored) - MAX_SHOWN) + self._more[kind]
            more = f"; and {omitted} more" if omitted else ""
            lines.append(f"{kind.capitalize()}: {_places(list(stored)[:MAX_SHOWN])}{more}.")
        return "\n".join(lines)


def _position(record: Record) -> Position:
    return record.topic, record.partition, record.offset


def _consequence(record: Record) -> str:
    acknowledgement = record.acknowledgement
    delay = None if acknowledgement is None else acknowledgement.detail
    return f"released, delay {delay / 1000:g} s" if isinstance(delay, int) else "rejected"


def _places(positions: list[Position]) -> str:
    """Formats positions by partition: "orders, partition 0, offsets 1-3, 7; partition 2, ..."."""
    offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
    for topic, partition, offset in positions:
        offsets[topic, partition].append(offset)
    return "; ".join(
        f"{topic}, partition {partition}, offset{'s' if len(found) > 1 else ''} {numbers(found)}"
        for (topic, partition), found in sorted(offsets.items())
    )
