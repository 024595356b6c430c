"""Deferred replies."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Synced
from sharebroker_server.group_coordinator.service.deferred_replies import DeferredReplies

RESULT = Synced("consumer", "range", b"part")


async def test_reply_completes_the_future_of_its_id_once() -> None:
    replies = DeferredReplies()
    (first, waiting), (second, other) = replies.expect(), replies.expect()
    assert first != second
    replies.resolve(first, RESULT)
    replies.resolve(first, KafkaError(ErrorCode.REBALANCE_IN_PROGRESS))
    assert waiting.result() == RESULT
    assert not other.done()


async def test_deferred_error_is_raised() -> None:
    replies = DeferredReplies()
    reply_id, waiting = replies.expect()
    replies.resolve(reply_id, KafkaError(ErrorCode.REBALANCE_IN_PROGRESS))
    with pytest.raises(KafkaError):
        await waiting


async def test_reply_to_an_unknown_id_is_ignored() -> None:
    replies = DeferredReplies()
    reply_id, waiting = replies.expect()
    replies.forget(reply_id)
    replies.forget(reply_id)
    replies.resolve(reply_id, RESULT)
    assert not waiting.done()
