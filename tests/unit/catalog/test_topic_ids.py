"""Topic ids as text."""

from __future__ import annotations

from sharebroker_server.catalog.topic_ids import new_topic_id, topic_id_text
from sharebroker_server.kafka_wire.message_classes import id_bytes


def test_topic_ids_are_kafkas_text() -> None:
    raw = bytes(range(16))
    assert topic_id_text(raw) == "AAECAwQFBgcICQoLDA0ODw"
    drawn = new_topic_id()
    assert len(drawn) == 22
    assert not drawn.startswith("-")
    assert topic_id_text(id_bytes(drawn)) == drawn
