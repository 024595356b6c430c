"""Reads responses as clients do: the server only writes them."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import TypeVar

from sharebroker_server.kafka_wire.decoder import BadMessage, Reader, read_message, skip_tags, struct_reader
from sharebroker_server.kafka_wire.frames import MessageCodec
from sharebroker_server.kafka_wire.schema import Message

T = TypeVar("T")


def result_of(computation: Generator[None, None, T], pauses: list[None] | None = None) -> T:
    """Completes a computation in portions; returns its result, and appends its pauses to a list."""
    while True:
        try:
            pause = next(computation)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # the generator's result
        if pauses is not None:
            pauses.append(pause)


def response_reader(codec: MessageCodec) -> Reader:
    """Returns the function that reads the message of a response."""
    return struct_reader(codec.api.response, codec.version, flexible=codec.flexible)


def read_response(frame: bytes, codec: MessageCodec) -> tuple[int, Message]:
    """Returns the correlation id and the message of a response without its length prefix.

    Raises BadMessage.
    """
    try:
        (correlation_id,) = struct.unpack_from(">i", frame)
        start = skip_tags(frame, 4) if codec.tagged_response_header else 4
    except (struct.error, IndexError) as error:
        raise BadMessage("The response ends too early.") from error
    return correlation_id, read_message(response_reader(codec), frame, start)
