"""Topic ids: 16 random bytes, written as in Kafka (base64url without padding, 22 characters)."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from itertools import count


def topic_id_text(raw: bytes) -> str:
    """Returns the text of 16 bytes."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def new_topic_id() -> str:
    """Returns a random id that does not start with a dash, which command lines would read as an option."""
    drawn = (topic_id_text(uuid.uuid4().bytes) for _ in count())
    return next(text for text in drawn if not text.startswith("-"))
