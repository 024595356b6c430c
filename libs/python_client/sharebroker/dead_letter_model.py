"""Dead letters as the clients return them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import DISPOSITION_NAMES

DISPOSITIONS = tuple(DISPOSITION_NAMES.values())


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Selects the letters that fulfil all conditions; an empty or missing value is no condition."""

    group_id: str = ""
    """The group in which the record failed."""
    source_topic: str = ""
    """The topic whose record failed."""
    source_partition: int | None = None
    """The partition whose record failed."""
    disposition: str = ""
    """How it failed: "rejected", "exhausted" or "expired"."""
    reason: str = ""
    """A part of the member's reason, in any case."""
    since: float | None = None
    """The letter was written at this time or later; seconds since the Unix epoch."""
    until: float | None = None
    """The letter was written before this time."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What the headers of a dead letter state; empty and 0: unknown."""

    partition: int
    """The partition of the dead letter topic."""
    offset: int
    """The offset in this partition."""
    time: float
    """When the letter was written, in seconds since the Unix epoch."""
    group_id: str
    """The group in which the record failed."""
    source_topic: str
    """The topic of the record."""
    source_partition: int
    """The partition of the record."""
    source_offset: int
    """The offset of the record."""
    delivery_count: int
    """The number of its deliveries."""
    disposition: str
    """How it failed: "rejected", "exhausted" or "expired"."""
    message: str
    """Kafka's text."""
    reason: str
    """The reason that the member gave."""
    failed: float | None
    """When the record failed, in seconds since the Unix epoch."""
    member_id: str
    """The member that held the record last."""
    client_id: str
    """The client id of this member."""
    hops: int
    """How often the record was a dead letter."""
    origin: str
    """Where it failed first, as topic/partition/offset."""
    copy: str
    """Whether the letter has the record: "full", "off", "too_large" or "gone"."""
    key_size: int | None
    """Bytes of the key; None for null."""
    value_size: int | None
    """Bytes of the value; None for null."""


@dataclass(frozen=True, slots=True)
class DeadLetterContent:
    """A dead letter with what it contains."""

    letter: DeadLetter
    """What its headers state."""
    key: bytes | None
    """The key, as far as it was requested."""
    value: bytes | None
    """The value, as far as it was requested."""
    headers: Sequence[tuple[str, bytes]]
    """All headers, also those of the record."""
    truncated: bool
    """Whether key, value or headers are longer."""


@dataclass(slots=True)
class DeadLetterCount:
    """Letters that failed for a similar reason."""

    group_id: str
    """The group; empty in the row of other letters."""
    source_topic: str
    """The topic of the records."""
    disposition: str
    """How they failed."""
    reason: str
    """The reason without numbers, ids and quoted texts."""
    letters: int
    """The number of letters."""
    oldest: float
    """When the oldest letter was written, in seconds since the Unix epoch."""
    newest: float
    """When the newest letter was written."""
    example_partition: int
    """The partition of one of the letters."""
    example_offset: int
    """The offset of this letter."""
    other: bool = False
    """Whether these are the letters that have no row of their own."""


@dataclass(frozen=True, slots=True)
class RedriveResult:
    """The outcome of the redrive of one letter."""

    letter: DeadLetter
    """The letter."""
    target_topic: str
    """The topic of the copy."""
    target_partition: int
    """The partition of the copy."""
    copy_offset: int | None
    """The offset of the copy, also if an earlier call made it; None if there is none."""
    error: KafkaError | None
    """Why there is no copy; None if there is one, or the letter was only validated."""


@dataclass(frozen=True, slots=True)
class RedrivePage:
    """The outcome of one call."""

    results: Sequence[RedriveResult]
    """The outcome of each letter, by partition and offset."""
    next_page_token: str
    """Where the next call continues; empty if these were the last letters."""
    scanned: int
    """The number of records that the call read."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """What was deleted from the dead letter topic."""

    letters: int
    """The number of letters."""
    before_offsets: Mapping[int, int]
    """By partition: the records below this offset are deleted."""
