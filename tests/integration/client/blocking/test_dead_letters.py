"""The blocking client of dead letters on a running server."""

from __future__ import annotations

import uuid

import pytest

from sharebroker import Admin, DeadLetterFilter, DeadLetters, ErrorCode, KafkaError
from sharebroker.blocking import dead_letters


def test_calls_return_results_and_raise_errors(server: str) -> None:
    name = f"dlq-{uuid.uuid4().hex[:12]}"
    with Admin(server) as admin:
        admin.create_topic(name)
    with dead_letters.DeadLetters(server) as letters:
        assert letters.list_letters(name) == []
        assert letters.summarize(name, DeadLetterFilter(group_id="g")) == []
        assert letters.redrive(name).results == ()
        assert letters.discard(name).letters == 0
        for call in (lambda: letters.get(name, 0, 0), lambda: letters.summarize(name, max_rows=0)):
            with pytest.raises(KafkaError) as caught:
                call()
            assert caught.value.code in (ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.INVALID_REQUEST)
        with pytest.raises(KafkaError):
            letters.list_letters(name, DeadLetterFilter(disposition="lost"))
    assert DeadLetters is dead_letters.DeadLetters
