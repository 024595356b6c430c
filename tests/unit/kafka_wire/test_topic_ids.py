"""Topic ids as bytes and as text."""

from __future__ import annotations

import pytest

from sharebroker_server.kafka_wire.topic_ids import id_bytes, id_text


@pytest.mark.parametrize(
    ("raw", "text"),
    [(bytes(16), ""), (bytes(range(16)), "AAECAwQFBgcICQoLDA0ODw"), (b"\xff" * 16, "_____________________w")],
)
def test_ids_round_trip(raw: bytes, text: str) -> None:
    assert id_text(raw) == text
    assert id_bytes(text) == raw


@pytest.mark.parametrize("text", ["a", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODw==", "é" * 22, "a b"])
def test_invalid_ids_are_rejected(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each kind of text has its own message
        id_bytes(text)
