"""The audit log: one line per administrative change, bounded lines of repeated denials, no endless names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import Context
from functools import partial

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.audit import LONGEST_NAME, WINDOW, RequestOrigin, Windows
from sharebroker_server.security.principal import Principal

ALICE = Requester(Principal("alice"), "/10.0.0.7")
ORDERS = Resource(AclResourceType.TOPIC, "orders")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EventDict]]:
    monkeypatch.setattr(audit, "windows", Windows())
    audit.serving(lambda: RequestOrigin(ALICE, "kafka", "DeleteTopics"))
    with capture_logs() as logged:
        yield logged


def test_repetitions_are_counted_until_the_window_closes() -> None:
    windows = Windows()
    window = windows.admit("a", 0.0)
    assert window is not None
    assert [windows.admit("a", 1.0), windows.admit("a", WINDOW - 1)] == [None, None]
    assert windows.admit("b", 1.0) is not None
    assert windows.close(window) == 2
    assert windows.admit("a", WINDOW) is not None


def test_a_window_whose_timer_is_late_ends_by_time() -> None:
    windows = Windows()
    first = windows.admit("a", 0.0)
    second = windows.admit("a", WINDOW)
    assert first is not None
    assert second is not None
    windows.close(first)
    assert windows.admit("a", WINDOW + 1) is None, "closing the first does not close the second"


def test_denials_beyond_the_limit_are_counted_together() -> None:
    windows = Windows(limit=2)
    assert windows.admit("a", 0.0)
    assert windows.admit("b", 0.0)
    shared = windows.admit("c", 0.0)
    assert shared is not None
    assert [windows.admit(key, 1.0) for key in "dea"] == [None, None, None]
    assert windows.close(shared) == 2


async def test_a_denial_names_principal_operation_and_resource(lines: list[EventDict]) -> None:
    for _ in range(3):
        audit.denied(ALICE, AclOperation.DELETE, ORDERS)
    assert lines == [
        {
            "event": "authorization denied",
            "log_level": "warning",
            "logger": "sharebroker.audit",
            "principal": "User:alice",
            "host": "10.0.0.7",
            "listener": "kafka",
            "api": "DeleteTopics",
            "operation": "DELETE",
            "resource_type": "TOPIC",
            "resource": "orders",
            "outcome": "denied",
        }
    ]


async def test_the_end_of_a_window_reports_repetitions(
    lines: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    closing: list[Callable[[], None]] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda _, close, *args: closing.append(partial(close, *args)))
    audit.denied(ALICE, AclOperation.DELETE, ORDERS)
    audit.denied(ALICE, AclOperation.DELETE, ORDERS)
    closing[0]()
    assert [(line["event"], line.get("repeated")) for line in lines] == [
        ("authorization denied", None),
        ("denials repeated", 1),
    ]
    assert lines[1]["resource"] == "orders"


async def test_every_change_has_a_line_and_equal_failures_have_one(lines: list[EventDict]) -> None:
    for _ in range(3):
        audit.change("DeleteTopics", "TOPIC", "orders", id="x")
        audit.change("DeleteTopics", "TOPIC", "orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    outcomes = [line["outcome"] for line in lines]
    assert outcomes == ["success", "UNKNOWN_TOPIC_OR_PARTITION", "success", "success"]
    assert lines[0]["id"] == "x"


async def test_a_change_of_unknown_outcome_has_a_line(lines: list[EventDict]) -> None:
    with pytest.raises(KafkaError), audit.changing("DeleteTopics", "TOPIC", ["a", "b"]):
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    with pytest.raises(asyncio.CancelledError), audit.changing("DeleteTopics", "TOPIC", ["c"]):
        raise asyncio.CancelledError
    with audit.changing("DeleteTopics", "TOPIC", ["d"]):
        pass
    assert [(line["resource"], line["outcome"]) for line in lines] == [
        (name, "REQUEST_TIMED_OUT") for name in "abc"
    ]


async def test_a_failed_authentication_names_the_claimed_user(lines: list[EventDict]) -> None:
    audit.unauthenticated("kafka", "/10.0.0.8", "PLAIN", "x" * 10_000)
    (line,) = lines
    assert (line["event"], line["host"], line["mechanism"]) == (
        "authentication failed",
        "10.0.0.8",
        "PLAIN",
    )
    assert len(line["user"]) == LONGEST_NAME + 1


async def test_a_denied_internal_call_names_its_peer(lines: list[EventDict]) -> None:
    audit.internal_call_denied("CreateTopics", "ipv4:10.0.0.8:1234", "10.0.0.8", "no token")
    audit.internal_call_denied("CreateTopics", "ipv4:10.0.0.8:1235", "10.0.0.8", "no token")
    (line,) = lines
    assert (line["event"], line["peer"]) == ("call of an internal RPC denied", "ipv4:10.0.0.8:1234")


async def test_changes_of_the_process_itself_have_no_client(lines: list[EventDict]) -> None:
    async def change() -> None:
        audit.change("CreateTopics", "TOPIC", "a")

    await asyncio.create_task(change(), context=Context())
    assert lines[0]["listener"] == "internal"
    assert "api" not in lines[0]
