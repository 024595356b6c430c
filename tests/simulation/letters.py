"""Reads dead letters from the batches of a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_server.record_log.core.batch import StoredBatch
from tests.testkit.checker.events import DeadLetter, Share

_PREFIX: Final = "__dlq.errors."
_MARK: Final = f"{_PREFIX}group".encode()
"""A redriven record has others of these headers."""
_REJECTED: Final = "CLIENT_REJECTED_NACK"


def has_letters(batch: StoredBatch) -> bool:
    """Returns whether a batch consists of dead letters."""
    return _MARK in batch.data


def letters_of(at: float, batch: StoredBatch) -> Iterator[DeadLetter]:
    """Yields the letters of a batch. Raises KeyError for a record that is none."""
    for record in DefaultRecordBatch(batch.data):
        headers = _texts(record.headers)
        share = Share(headers["group"], headers["topic"], int(headers["partition"]))
        value = record.value.decode() if headers["copy"] == "full" else None
        yield DeadLetter(at, share, int(headers["offset"]), headers["disposition"] == _REJECTED, value)


def _texts(headers: Sequence[tuple[str, bytes]]) -> Mapping[str, str]:
    return {name.removeprefix(_PREFIX): value.decode() for name, value in headers if name.startswith(_PREFIX)}
