"""Lists, summarises and shows dead letters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.dead_letters import (
    Header,
    LetterFilter,
    LetterRecord,
    ReadLetter,
    Summary,
    SummaryRow,
    parse,
)
from sharebroker_server.gateway.core.validation import check_bounds
from sharebroker_server.gateway.dead_letters.reading import LetterScan, position_of, record_at

DEFAULT_PAGE: Final = 100
LONGEST_PAGE: Final = 1000
"""The most letters of a page, and rows of a summary."""

PAGE_BYTES: Final = 1 << 20
"""Bytes of a page after which it ends."""

DEFAULT_BYTES: Final = 1 << 16
MOST_BYTES: Final = 1 << 20
"""Bytes of a letter's key, value and headers, each."""


async def list_letters(
    gateway: Gateway, request: pb.ListDeadLettersRequest, deadline: Deadline
) -> pb.ListDeadLettersResponse:
    """Returns a page of letters. Raises KafkaError."""
    topic = gateway.topic(request.topic)
    check_bounds("page_size", request.page_size, 0, LONGEST_PAGE)
    size = request.page_size or DEFAULT_PAGE
    scan = LetterScan(gateway, topic, position_of(topic, request.page_token), deadline)
    response = pb.ListDeadLettersResponse()
    read = 0
    async with aclosing(selected(scan, filter_of(request.filter))) as letters:
        async for letter in letters:
            response.letters.append(message_of(letter))
            read += response.letters[-1].ByteSize()
            if len(response.letters) == size or read >= PAGE_BYTES:
                break
    response.next_page_token, response.scanned = scan.token, scan.scanned
    return response


async def summarize_letters(
    gateway: Gateway, request: pb.SummarizeDeadLettersRequest, deadline: Deadline
) -> pb.SummarizeDeadLettersResponse:
    """Returns the counts of a part of the topic. Raises KafkaError."""
    topic = gateway.topic(request.topic)
    check_bounds("max_rows", request.max_rows, 0, LONGEST_PAGE)
    scan = LetterScan(gateway, topic, position_of(topic, request.page_token), deadline)
    summary = Summary(request.max_rows or DEFAULT_PAGE)
    async for letter in selected(scan, filter_of(request.filter)):
        summary.add(letter)
    response = pb.SummarizeDeadLettersResponse(next_page_token=scan.token, scanned=scan.scanned)
    for key, row in summary.rows():
        added = _add_row(response, row)
        added.group_id, added.source_topic, added.reason = key.group_id, key.topic, key.reason
        added.disposition = key.disposition  # type: ignore[assignment]  # the enum's numbers
    if summary.other is not None:
        _add_row(response, summary.other).other = True
    return response


async def get_letter(
    gateway: Gateway, request: pb.GetDeadLetterRequest, deadline: Deadline
) -> pb.GetDeadLetterResponse:
    """Returns one letter. Raises KafkaError: RESOURCE_NOT_FOUND if there is none at the offset."""
    topic = gateway.topic(request.topic)
    check_bounds("partition", request.partition, 0, topic.partitions - 1)
    check_bounds("max_bytes", request.max_bytes, 0, MOST_BYTES)
    check_bounds("offset", request.offset, 0, (1 << 63) - 2)
    most = request.max_bytes or DEFAULT_BYTES
    record = await record_at(gateway, topic, request.partition, request.offset, deadline)
    letter = None if record is None else read_letter(record)
    if letter is None:
        text = f"There is no dead letter at offset {request.offset} of {topic.name}-{request.partition}."
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
    return _shown(letter, most)


async def selected(scan: LetterScan, conditions: LetterFilter) -> AsyncGenerator[ReadLetter, None]:
    """Yields the letters of a scan that fulfil the conditions. Raises KafkaError."""
    async with aclosing(scan.records()) as records:
        async for record in records:
            letter = read_letter(record)
            if letter is not None and conditions.selects(letter):
                yield letter


def read_letter(record: LetterRecord) -> ReadLetter | None:
    """Returns a record as a letter; None if it is none."""
    facts = parse(record.headers)
    return None if facts is None else ReadLetter(record, facts)


def filter_of(message: pb.DeadLetterFilter) -> LetterFilter:
    """Returns the conditions of a request."""
    return LetterFilter(
        message.group_id,
        message.source_topic,
        message.source_partition if message.HasField("source_partition") else None,
        message.disposition,
        message.reason,
        message.from_ms,
        message.before_ms,
    )


def message_of(letter: ReadLetter) -> pb.DeadLetter:
    """Returns a letter without key and value."""
    record, facts = letter
    return pb.DeadLetter(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        group_id=facts.group_id,
        source_topic=facts.topic,
        source_partition=facts.partition,
        source_offset=facts.offset,
        delivery_count=facts.delivery_count,
        disposition=facts.disposition,  # type: ignore[arg-type]  # the enum's numbers
        message=facts.message,
        reason=facts.reason,
        failed_ms=facts.failed_ms,
        member_id=facts.member_id,
        client_id=facts.client_id,
        hops=facts.hops,
        origin=facts.origin,
        copy=facts.copy,
        key_size=-1 if record.key is None else len(record.key),
        value_size=-1 if record.value is None else len(record.value),
    )


def _add_row(
    response: pb.SummarizeDeadLettersResponse, row: SummaryRow
) -> pb.SummarizeDeadLettersResponse.Row:
    partition, offset = row.example
    return response.rows.add(
        letters=row.letters,
        oldest_ms=row.oldest_ms,
        newest_ms=row.newest_ms,
        example_partition=partition,
        example_offset=offset,
    )


def _shown(letter: ReadLetter, most: int) -> pb.GetDeadLetterResponse:
    record = letter.record
    headers, complete = _bounded(record.headers, most)
    long = any(len(data or b"") > most for data in (record.key, record.value))
    response = pb.GetDeadLetterResponse(letter=message_of(letter), truncated=long or not complete)
    if record.key is not None:
        response.key = record.key[:most]
    if record.value is not None:
        response.value = record.value[:most]
    for name, value in headers:
        response.headers.add(key=name, value=value or b"")
    return response


def _bounded(headers: Sequence[Header], most: int) -> tuple[Sequence[Header], bool]:
    """Returns the first headers up to a number of bytes, and whether these are all."""
    size = 0
    for index, (name, value) in enumerate(headers):
        size += len(name) + len(value or b"")
        if size > most:
            return headers[:index], False
    return headers, True
