"""Limits of calls and request bytes in flight."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc.limits import CallLimits


def test_calls_beyond_the_limit_are_rejected() -> None:
    limits = CallLimits(max_calls=1)
    with limits.call(), pytest.raises(KafkaError) as rejected, limits.call():
        pass
    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with limits.call():
        pass


def test_a_request_is_accepted_while_there_is_any_room() -> None:
    limits = CallLimits(max_bytes=10)
    with ExitStack() as calls:
        calls.enter_context(limits.call(9))
        calls.enter_context(limits.call(1_000))
        with pytest.raises(KafkaError, match="1009 bytes"):
            calls.enter_context(limits.call(1))
        calls.enter_context(limits.call())
    with limits.call(1):
        pass
