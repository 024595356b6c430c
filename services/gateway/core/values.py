"""Names of things, as sessions and validation speak of them."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic; the id is Kafka's text of 22 characters."""

    topic_id: str
    partition: int


class SessionKey(NamedTuple):
    """Whose share session it is."""

    group_id: str
    member_id: str


class AckBatch(NamedTuple):
    """A run of offsets, `last` inclusive, with one type for all or one for each."""

    first: int
    last: int
    types: tuple[int, ...]
