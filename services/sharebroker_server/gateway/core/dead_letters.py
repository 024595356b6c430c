"""Dead letters as their readers see them: parsed headers, filters, and summaries by normalised reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from sharebroker_protocol.model import MESSAGE_ID_HEADER
from sharebroker_protocol.records.letter_headers import (
    HOPS,
    MESSAGE_ID,
    ORIGIN,
    PREFIX,
    WORDS,
    CopyOutcome,
    hops_of,
    last_header,
)

Header = tuple[str, bytes | None]

LONGEST_TEXT: Final = 1024
"""Characters of a header's text."""

LONGEST_REASON: Final = 200
"""Characters of a normalised reason."""

_NUMBERS: Final[Mapping[str, int]] = MappingProxyType({word: number for number, word in WORDS.items()})

_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_ID: Final = re.compile(
    r"\b(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|0x[0-9a-f]+|(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,})\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_SPACE: Final = re.compile(r"\s+")


class LetterRecord(NamedTuple):
    """A record of a dead letter topic; `timestamp_ms` is when it was written."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


class LetterFacts(NamedTuple):
    """What the headers of a letter state; 0 and empty texts: unknown.

    `disposition` is its number, `copy` the value of `CopyOutcome`.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    delivery_count: int = 0
    disposition: int = 0
    message: str = ""
    reason: str = ""
    failed_ms: int = 0
    member_id: str = ""
    client_id: str = ""
    hops: int = 0
    origin: str = ""
    copy: str = ""
    topic_id: str = ""


class ReadLetter(NamedTuple):
    """A letter and what its headers state."""

    record: LetterRecord
    facts: LetterFacts


def parse(headers: Iterable[Header]) -> LetterFacts | None:
    """Returns what the headers of a letter state; None for a record that is no letter.

    Of several headers with one name the first counts, which the server wrote: a copied record may have more.
    """
    headers = list(headers)
    texts: dict[str, str] = {}
    for name, value in headers:
        if name.startswith(PREFIX) and value is not None:
            texts.setdefault(name.removeprefix(PREFIX), value.decode("utf-8", "replace")[:LONGEST_TEXT])
    partition, offset = (_number(texts.get(name, "")) for name in ("partition", "offset"))
    group_id, topic = texts.get("group", ""), texts.get("topic", "")
    if partition is None or offset is None or not group_id or not topic or partition >= 1 << 31:
        return None
    count = _number(texts.get("delivery.count", "")) or 0
    return LetterFacts(
        group_id,
        topic,
        partition,
        offset,
        delivery_count=min(count, (1 << 31) - 1),
        disposition=_NUMBERS.get(texts.get("disposition", ""), 0),
        message=texts.get("message", ""),
        reason=texts.get("reason", ""),
        failed_ms=_number(texts.get("timestamp", "")) or 0,
        member_id=texts.get("member", ""),
        client_id=texts.get("client.id", ""),
        hops=hops_of(headers),
        origin=texts.get("origin", ""),
        copy=texts.get("copy", ""),
        topic_id=texts.get("topic.id", ""),
    )


def redriven_headers(facts: LetterFacts, headers: Iterable[Header], *, reset_hops: bool) -> list[Header]:
    """Returns the headers of a record that is delivered again: its own, and those that its next letter reads.

    `headers` are those of the record, or of a letter with a copy of it.
    """
    own = [header for header in headers if not header[0].startswith(PREFIX)]
    hops = 0 if reset_hops else max(facts.hops, 1)
    origin = facts.origin or f"{facts.topic}/{facts.partition}/{facts.offset}"
    message_id = last_header(headers, MESSAGE_ID)
    if message_id is not None:  # the letter has it under another name
        own.append((MESSAGE_ID_HEADER, message_id))
    return [*own, (HOPS, str(hops).encode()), (ORIGIN, origin.encode())]


def is_copied(letter: ReadLetter) -> bool:
    """Whether a letter has key, value and headers of its record; letters of Kafka do not state it."""
    record, copy = letter.record, letter.facts.copy
    return copy == CopyOutcome.FULL or (not copy and (record.key, record.value) != (None, None))


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Conditions on letters; None, 0 and empty texts are no condition. Times in ms since the Unix epoch."""

    group_id: str = ""
    topic: str = ""
    partition: int | None = None
    disposition: int = 0
    reason: str = ""
    from_ms: int = 0
    before_ms: int = 0

    def selects(self, letter: ReadLetter) -> bool:
        """Whether a letter fulfils all conditions."""
        facts, time_ms = letter.facts, letter.record.timestamp_ms
        return (
            self.group_id in ("", facts.group_id)
            and self.topic in ("", facts.topic)
            and self.partition in (None, facts.partition)
            and self.disposition in (0, facts.disposition)
            and self.reason.lower() in facts.reason.lower()
            and self.from_ms <= time_ms
            and (not self.before_ms or time_ms < self.before_ms)
        )


def normalised(reason: str) -> str:
    """Returns a reason without the parts that differ between records: numbers, ids and quoted texts."""
    text = _QUOTED.sub("'...'", reason)
    text = _ID.sub("<id>", text)
    return _SPACE.sub(" ", _NUMBER.sub("#", text)).strip()[:LONGEST_REASON]


class SummaryKey(NamedTuple):
    """Letters with the same values are counted together; `disposition` is its number."""

    group_id: str
    topic: str
    disposition: int
    reason: str


@dataclass(slots=True)
class SummaryRow:
    """Letters that are counted together. Times in ms; `example` is partition and offset of the first one."""

    letters: int
    oldest_ms: int
    newest_ms: int
    example: tuple[int, int]

    def add(self, other: SummaryRow) -> None:
        """Adds the letters of another row."""
        self.letters += other.letters
        self.oldest_ms = min(self.oldest_ms, other.oldest_ms)
        self.newest_ms = max(self.newest_ms, other.newest_ms)


class Summary:
    """Counts letters in up to `max_rows` rows, and the letters without a row in `other`.

    The first keys get rows: the number of keys that are stored is bounded, too.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._rows: dict[SummaryKey, SummaryRow] = {}
        self.other: SummaryRow | None = None

    def add(self, letter: ReadLetter) -> None:
        """Counts a letter."""
        facts, (partition, offset, time_ms, *_) = letter.facts, letter.record
        key = SummaryKey(facts.group_id, facts.topic, facts.disposition, normalised(facts.reason))
        one = SummaryRow(1, time_ms, time_ms, (partition, offset))
        row = self._rows.get(key)
        if row is not None:
            row.add(one)
        elif len(self._rows) < self._max_rows:
            self._rows[key] = one
        elif self.other is None:
            self.other = one
        else:
            self.other.add(one)

    def rows(self) -> list[tuple[SummaryKey, SummaryRow]]:
        """Returns the rows, that with the most letters first; `other` is not among them."""
        return sorted(self._rows.items(), key=lambda item: (-item[1].letters, item[0]))


class ScanPosition(NamedTuple):
    """Where the next part of a scan begins, and the end of its partition; `end` 0: the present one."""

    partition: int = 0
    offset: int = 0
    end: int = 0

    @property
    def token(self) -> str:
        """The position as a page token."""
        return ":".join(map(str, self))

    @classmethod
    def parsed(cls, token: str) -> ScanPosition | None:
        """Returns the position of a token; None if it is invalid."""
        numbers = [_number(part) for part in token.split(":")] if len(token) <= 60 else []
        if len(numbers) != len(cls._fields) or None in numbers:
            return None
        return cls(*(number for number in numbers if number is not None))


def _number(text: str) -> int | None:
    """Returns a number of up to 18 digits, None for other texts."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 18 else None
