"""Redrives dead letters: finds the record of each, and sends it to the leader of its target (decision 0106).

The leader appends the record of a letter once per target, so a call may be repeated, and a redrive needs no
state here: the caller continues it page by page.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import invalid_field
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_server.catalog.topics import Topic, check_not_internal
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.dead_letters import LetterFilter, ReadLetter
from sharebroker_server.gateway.core.validation import check_bounds, check_request_id
from sharebroker_server.gateway.dead_letters.listing import filter_of, selected
from sharebroker_server.gateway.dead_letters.reading import LetterScan, position_of
from sharebroker_server.gateway.dead_letters.sending import MOST_BYTES, RedriveSender
from sharebroker_server.gateway.dead_letters.targets import Denial, Targets, permitted

DEFAULT_LETTERS: Final = 100
MOST_LETTERS: Final = 1000
"""The letters of one call."""


async def redrive_letters(
    gateway: Gateway,
    request: pb.RedriveDeadLettersRequest,
    deadline: Deadline,
    denial: Denial = permitted,
) -> pb.RedriveDeadLettersResponse:
    """Delivers the records of the next letters again; returns the outcome of each.

    `denial` returns why the caller may not use a resource. Raises KafkaError for an invalid request, and that
    of the leaders of the letters.
    """
    topic = gateway.topic(request.topic)
    check_bounds("max_letters", request.max_letters, 0, MOST_LETTERS)
    if request.request_id:
        check_request_id(request.request_id)
    if request.HasField("to_topic"):
        _check_target(gateway, request.to_topic, topic)
    scan = LetterScan(gateway, topic, position_of(topic, request.page_token), deadline)
    letters = await _page(scan, filter_of(request.filter), request.max_letters or DEFAULT_LETTERS)
    sender = RedriveSender(gateway, request, topic, Targets(gateway, request, denial))
    results = await sender.run(letters, deadline)
    return pb.RedriveDeadLettersResponse(results=results, next_page_token=scan.token, scanned=scan.scanned)


def _check_target(gateway: Gateway, name: str, letters: Topic) -> None:
    """Raises KafkaError for a topic to which letters are not redriven."""
    check_not_internal(name)
    if gateway.topic(name, "to_topic").topic_id == letters.topic_id:
        raise invalid_field("to_topic", "A dead letter topic is not the target of its own letters.")


async def _page(scan: LetterScan, conditions: LetterFilter, most: int) -> list[ReadLetter]:
    """Returns the next letters, up to a number and MOST_BYTES."""
    letters: list[ReadLetter] = []
    size = 0
    async with aclosing(selected(scan, conditions)) as found:
        async for letter in found:
            letters.append(letter)
            size += len(letter.record.key or b"") + len(letter.record.value or b"")
            if len(letters) == most or size >= MOST_BYTES:
                break
    return letters
