"""Makes dead letters: the headers that explain a failed record, and a copy of it.

Source: Kafka's KIP-1191 for the first six headers, their order and texts, and for key and value. The further
headers and the copy of the original headers are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharebroker_protocol.model import MESSAGE_ID_HEADER, Disposition
from sharebroker_protocol.records.batches import CODECS, HEADER_BYTES, BatchBuilder
from sharebroker_protocol.records.letter_headers import (
    MAX_HOPS,
    MESSAGE_ID,
    ORIGIN,
    PREFIX,
    WORDS,
    CopyOutcome,
    hops_of,
    last_header,
)

Header = tuple[str, bytes | None]

MAX_BATCH_BYTES: Final = 1 << 20
"""The size of a batch of letters; a single larger letter has a batch of its own."""

_MESSAGES: Final[Mapping[int, str]] = {
    Disposition.REJECTED: "Offset rejected by client.",
    Disposition.EXHAUSTED: "Offset delivery count exceeded the threshold.",
    Disposition.EXPIRED: "Offset exceeded the maximum age.",
}
"""The first two are Kafka's, which has no expiry."""


class LetterSource(NamedTuple):
    """The share-partition whose records failed; `topic` is a name."""

    group_id: str
    topic: str
    topic_id: str
    partition: int


class FailedRecord(NamedTuple):
    """What is known of a failed record; `time_ms` 0 and empty texts: unknown. `disposition`: its number."""

    offset: int
    delivery_count: int
    disposition: int
    reason: str = ""
    time_ms: int = 0
    member_id: str = ""
    client_id: str = ""


class OriginalRecord(NamedTuple):
    """A record of the source log."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class Letter(NamedTuple):
    """A record of the dead letter topic, and its headers if its record is not copied."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    bare_headers: Sequence[Header]


def make_letter(
    source: LetterSource, failed: FailedRecord, original: OriginalRecord | None, *, copy: bool
) -> Letter:
    """Returns the letter of a failed record; `original` None: the source log does not have it."""
    outcome = CopyOutcome.OFF if not copy else CopyOutcome.GONE if original is None else CopyOutcome.FULL
    before = () if original is None else original.headers
    errors = [*_kafka_headers(source, failed), *_our_headers(source, failed, before)]
    headers = [*errors, _text("copy", outcome)]
    if original is None or outcome is not CopyOutcome.FULL:
        return Letter(None, None, headers, headers)
    headers += [
        header for header in before if not header[0].startswith(PREFIX) and header[0] != MESSAGE_ID_HEADER
    ]
    return Letter(original.key, original.value, headers, [*errors, _text("copy", CopyOutcome.TOO_LARGE)])


def has_most_hops(headers: Iterable[Header]) -> bool:
    """Returns whether a record was a dead letter so often that it gets no letter any more."""
    return hops_of(headers) >= MAX_HOPS


def build_batch(letters: Iterable[Letter], now_ms: int, max_bytes: int) -> tuple[bytes, int]:
    """Returns a batch of the first letters, and their number; all have the timestamp `now_ms`.

    It has up to MAX_BATCH_BYTES and `max_bytes`, the `max.message.bytes` of the topic. A letter that is
    larger than `max_bytes` has its headers only. If it is still too large, it has a batch of its own.
    """
    builder = BatchBuilder(CODECS["none"], min(max_bytes, MAX_BATCH_BYTES))
    for key, value, headers, bare_headers in letters:
        if _fits(now_ms, key, value, headers, max_bytes):
            added = builder.append(now_ms, key, value, headers)
        else:
            added = builder.append(now_ms, None, None, bare_headers)
        if not added:
            break
    return builder.build(), builder.count


def _fits(
    now_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header], max_bytes: int
) -> bool:
    """Whether a batch with this record alone has up to `max_bytes`."""
    if DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, list(headers)) <= max_bytes:
        return True
    if len(key or b"") + len(value or b"") + HEADER_BYTES > max_bytes:
        return False
    builder = BatchBuilder(CODECS["none"], max_bytes)
    builder.append(now_ms, key, value, headers)
    return builder.size <= max_bytes


def _kafka_headers(source: LetterSource, failed: FailedRecord) -> list[Header]:
    return [
        _text("topic", source.topic),
        _text("partition", source.partition),
        _text("offset", failed.offset),
        _text("group", source.group_id),
        _text("delivery.count", failed.delivery_count),
        _text("message", _MESSAGES.get(failed.disposition, _MESSAGES[Disposition.REJECTED])),
    ]


def _our_headers(source: LetterSource, failed: FailedRecord, before: Sequence[Header]) -> list[Header]:
    """Returns the headers without `copy`. A letter that fails again keeps its first origin and message id."""
    headers = [
        _text("disposition", WORDS.get(failed.disposition, WORDS[Disposition.REJECTED])),
        _text("topic.id", source.topic_id),
    ]
    optional = {
        "reason": failed.reason,
        "timestamp": failed.time_ms,
        "member": failed.member_id,
        "client.id": failed.client_id,
    }
    headers += [_text(name, value) for name, value in optional.items() if value]
    origin = last_header(before, ORIGIN)
    if origin is None:
        origin = f"{source.topic}/{source.partition}/{failed.offset}".encode()
    headers += [_text("hops", hops_of(before) + 1), (ORIGIN, origin)]
    # Not as the message id of the letter: a record that is published to the topic would be a duplicate of it.
    message_id = last_header(before, MESSAGE_ID_HEADER) or last_header(before, MESSAGE_ID)
    return headers if message_id is None else [*headers, (MESSAGE_ID, message_id)]


def _text(name: str, value: object) -> Header:
    return PREFIX + name, str(value).encode()
