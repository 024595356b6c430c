"""The topics of Metadata responses as bytes, until the topics, the brokers or their leaders change.

A response for all topics has tens of bytes for each partition of the cluster. To build it takes a hundred
times as long as to copy its bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.kafka.cluster_view import ClusterView

MAX_BYTES: Final = 32 << 20
"""The bytes that are cached; beyond them the cache is emptied first."""


class Encoding(NamedTuple):
    """What the bytes of a topic depend on, apart from the topic and the view.

    `operations` are those that the client may do to the topic, as bits.
    """

    version: int
    operations: int


class EncodedTopics:
    """A cache for the responses with one view; a response with another view empties it."""

    __slots__ = ("_bytes", "_encoded", "_view")

    def __init__(self) -> None:
        self._view: ClusterView | None = None
        self._encoded: dict[tuple[Encoding, str], tuple[Topic, bytes]] = {}
        self._bytes = 0

    def get(self, view: ClusterView, encoding: Encoding, topic: Topic) -> bytes | None:
        """Returns the bytes of a topic; None unless they were put for this very view and topic."""
        if self._view is not view:
            return None
        cached = self._encoded.get((encoding, topic.topic_id))
        return cached[1] if cached is not None and cached[0] == topic else None

    def put(self, view: ClusterView, encoding: Encoding, topic: Topic, content: bytes) -> None:
        """Caches the bytes of a topic."""
        if self._view is not view or self._bytes + len(content) > MAX_BYTES:
            self._view, self._bytes = view, 0
            self._encoded.clear()
        key = (encoding, topic.topic_id)
        replaced = self._encoded.get(key)
        self._bytes += len(content) - (len(replaced[1]) if replaced else 0)
        self._encoded[key] = topic, content
