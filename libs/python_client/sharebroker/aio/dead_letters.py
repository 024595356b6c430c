"""The asyncio client of dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from sharebroker.aio.admin import check
from sharebroker.aio.connection import RequestClient
from sharebroker.dead_letter_model import (
    DISPOSITIONS,
    DeadLetter,
    DeadLetterContent,
    DeadLetterCount,
    DeadLetterFilter,
    Discarded,
    RedrivePage,
    RedriveResult,
)
from sharebroker_protocol.address import Address
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.model import DISPOSITION_NAMES, Disposition

A = TypeVar("A")

_ALL: Final = DeadLetterFilter()
_PAGE: Final = 1000
_MOST_ROWS: Final = 1000


class DeadLetters(RequestClient):
    """Reads, redrives and discards the letters of dead letter topics.

    Each method raises KafkaError.
    """

    def __init__(self, address: str | Address, request_timeout: float = 30.0) -> None:
        """`address` is the gateway's `host:port`; `request_timeout` limits each call, in seconds."""
        super().__init__(address, request_timeout)
        self._calls = self._connection.dead_letters

    async def list_letters(
        self, topic: str, where: DeadLetterFilter = _ALL, limit: int | None = None
    ) -> list[DeadLetter]:
        """Lists letters by partition and offset, at most `limit`; reads as many pages as it needs."""
        request = pb.ListDeadLettersRequest(topic=topic, filter=_conditions(where))
        letters: list[DeadLetter] = []
        while limit is None or len(letters) < limit:
            request.page_size = _PAGE if limit is None else min(limit - len(letters), _PAGE)
            page = await self._call(self._calls.ListDeadLetters, request)
            letters += map(_letter, page.letters)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return letters

    async def summarize(
        self, topic: str, where: DeadLetterFilter = _ALL, max_rows: int = 100
    ) -> list[DeadLetterCount]:
        """Counts letters by group, source topic, disposition and normalised reason; the largest count first.

        Beyond `max_rows` (1 to 1000) the letters are counted in one row with `other`, the last.
        """
        if not 1 <= max_rows <= _MOST_ROWS:
            raise invalid_field("max_rows", f"max_rows is {max_rows}; 1 to {_MOST_ROWS} is allowed.")
        request = pb.SummarizeDeadLettersRequest(topic=topic, filter=_conditions(where), max_rows=_MOST_ROWS)
        counts: dict[tuple[str, ...], DeadLetterCount] = {}
        while True:
            part = await self._call(self._calls.SummarizeDeadLetters, request)
            merge(counts, map(_count, part.rows))
            if not part.next_page_token:
                return shortened(counts.values(), max_rows)
            request.page_token = part.next_page_token

    async def get(self, topic: str, partition: int, offset: int, max_bytes: int = 0) -> DeadLetterContent:
        """Returns one letter with key, value and headers, each up to `max_bytes` (0: 64 KiB).

        Raises KafkaError RESOURCE_NOT_FOUND.
        """
        request = pb.GetDeadLetterRequest(
            topic=topic, partition=partition, offset=offset, max_bytes=max_bytes
        )
        found = await self._call(self._calls.GetDeadLetter, request)
        return DeadLetterContent(
            _letter(found.letter),
            found.key if found.HasField("key") else None,
            found.value if found.HasField("value") else None,
            tuple((header.key, header.value) for header in found.headers),
            found.truncated,
        )

    async def redrive(
        self,
        topic: str,
        where: DeadLetterFilter = _ALL,
        *,
        to_source_topic: bool = False,
        to_topic: str | None = None,
        max_letters: int = 100,
        page_token: str = "",
        request_id: str = "",
        validate_only: bool = False,
        reset_hops: bool = False,
    ) -> RedrivePage:
        """Delivers the records of the next letters again; the caller continues with `next_page_token`.

        By default only the group in which a record failed receives it again. With `to_source_topic` all
        groups of the source topic do, with `to_topic` those of another topic. Each letter is redriven once
        per target, however often it is called; with a `request_id` once per id. `reset_hops` also redrives
        records that were a dead letter too often.
        """
        request = pb.RedriveDeadLettersRequest(
            topic=topic,
            filter=_conditions(where),
            max_letters=max_letters,
            page_token=page_token,
            request_id=request_id,
            validate_only=validate_only,
            reset_hops=reset_hops,
        )
        if to_topic is not None:
            request.to_topic = to_topic
        elif to_source_topic:
            request.to_source_topic = True
        page = await self._call(self._calls.RedriveDeadLetters, request)
        return RedrivePage(tuple(map(_result, page.results)), page.next_page_token, page.scanned)

    async def discard(
        self, topic: str, where: DeadLetterFilter = _ALL, *, validate_only: bool = False
    ) -> Discarded:
        """Deletes the oldest letters of each partition, up to the first one that is not selected."""
        request = pb.DiscardDeadLettersRequest(
            topic=topic, filter=_conditions(where), validate_only=validate_only
        )
        letters, offsets = 0, dict[int, int]()
        while True:
            part = await self._call(self._calls.DiscardDeadLetters, request)
            check(*part.partitions)
            letters += sum(one.letters for one in part.partitions)
            offsets |= {one.partition: one.before_offset for one in part.partitions}
            if not part.next_page_token:
                return Discarded(letters, offsets)
            request.page_token = part.next_page_token


def merge(counts: dict[tuple[str, ...], DeadLetterCount], rows: Iterable[DeadLetterCount]) -> None:
    """Adds the rows of a part of a topic to those of the parts before; the key () has the other letters."""
    for row in rows:
        key: tuple[str, ...] = (row.group_id, row.source_topic, row.disposition, row.reason)
        if row.other or (key not in counts and len(counts) >= _MOST_ROWS):
            key, row = (), _other(row)
        if key in counts:
            _add(counts[key], row)
        else:
            counts[key] = row


def shortened(counts: Iterable[DeadLetterCount], max_rows: int) -> list[DeadLetterCount]:
    """Returns the largest rows, and one with the letters of the others."""
    rows = sorted(
        counts, key=lambda row: (row.other, -row.letters, row.group_id, row.source_topic, row.reason)
    )
    kept = [row for row in rows if not row.other][:max_rows]
    dropped = rows[len(kept) :]
    if dropped:
        kept.append(_other(dropped[0]))
    for row in dropped[1:]:
        _add(kept[-1], row)
    return kept


def _add(row: DeadLetterCount, more: DeadLetterCount) -> None:
    row.letters += more.letters
    row.oldest, row.newest = min(row.oldest, more.oldest), max(row.newest, more.newest)


def _other(row: DeadLetterCount) -> DeadLetterCount:
    return replace(row, group_id="", source_topic="", disposition="", reason="", other=True)


def _conditions(conditions: DeadLetterFilter) -> pb.DeadLetterFilter:
    """Raises INVALID_REQUEST for an unknown disposition."""
    if conditions.disposition not in ("", *DISPOSITIONS):
        raise invalid_field("disposition", f"{conditions.disposition!r} is not {', '.join(DISPOSITIONS)}.")
    number = Disposition[conditions.disposition.upper()] if conditions.disposition else 0
    return pb.DeadLetterFilter(
        group_id=conditions.group_id,
        source_topic=conditions.source_topic,
        source_partition=conditions.source_partition,
        disposition=number,  # type: ignore[arg-type]  # the enum's numbers
        reason=conditions.reason,
        from_ms=round((conditions.since or 0) * 1000),
        before_ms=round((conditions.until or 0) * 1000),
    )


def _letter(letter: pb.DeadLetter) -> DeadLetter:
    return DeadLetter(
        letter.partition,
        letter.offset,
        letter.timestamp_ms / 1000,
        letter.group_id,
        letter.source_topic,
        letter.source_partition,
        letter.source_offset,
        letter.delivery_count,
        DISPOSITION_NAMES.get(letter.disposition, ""),
        letter.message,
        letter.reason,
        letter.failed_ms / 1000 if letter.failed_ms else None,
        letter.member_id,
        letter.client_id,
        letter.hops,
        letter.origin,
        letter.copy,
        letter.key_size if letter.key_size >= 0 else None,
        letter.value_size if letter.value_size >= 0 else None,
    )


def _count(row: pb.SummarizeDeadLettersResponse.Row) -> DeadLetterCount:
    return DeadLetterCount(
        row.group_id,
        row.source_topic,
        DISPOSITION_NAMES.get(row.disposition, ""),
        row.reason,
        row.letters,
        row.oldest_ms / 1000,
        row.newest_ms / 1000,
        row.example_partition,
        row.example_offset,
        row.other,
    )


def _result(result: pb.RedriveDeadLettersResponse.Result) -> RedriveResult:
    code, copy = result.error_code, result.copy_offset
    error = KafkaError(ErrorCode(code), result.error_message) if code else None
    return RedriveResult(
        _letter(result.letter),
        result.target_topic,
        result.target_partition,
        copy if copy >= 0 else None,
        error,
    )
