"""Errors that only a client raises."""

from __future__ import annotations

import pytest

from sharebroker.client_errors import ConnectionLostError, RecordDeserializationError, warn_unclosed
from sharebroker_protocol.errors import ErrorCode


def test_connection_lost_is_a_network_exception() -> None:
    assert ConnectionLostError().code is ErrorCode.NETWORK_EXCEPTION
    assert ConnectionLostError("reset").message.endswith(": reset")


def test_deserialization_error_names_the_record() -> None:
    error = RecordDeserializationError("orders", 3, 7)
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 7)
    assert "orders-3@7" in str(error)


def test_unclosed_client_warns() -> None:
    with pytest.warns(ResourceWarning, match="object was dropped without close"):
        warn_unclosed(object())
