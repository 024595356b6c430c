"""Callers of gRPC: their certificates, and handlers that reject their calls."""

from __future__ import annotations

from typing import Any

from sharebroker_server.security.interception import certificate_subjects, rejecting


class Context:
    """The context of a call."""

    def __init__(self, **properties: list[bytes]) -> None:
        self._properties = properties

    def auth_context(self) -> dict[str, list[bytes]]:
        return self._properties


def test_subject_of_the_certificate_is_text() -> None:
    context: Any = Context(x509_subject=[b"CN=me,O=\xff"])
    assert certificate_subjects(context) == ["CN=me,O=\ufffd"]


def test_a_caller_without_certificate_has_no_subject() -> None:
    context: Any = Context(peer=[b"x"])
    assert certificate_subjects(context) == []


async def test_rejecting_handler_reads_no_message() -> None:
    rejected: list[Any] = []

    async def reject(context: Any) -> None:
        rejected.append(context)

    handler: Any = rejecting(reject)
    context = Context()
    await handler.stream_stream(None, context)  # without requests to read
    assert rejected == [context]
    assert handler.request_deserializer is None
