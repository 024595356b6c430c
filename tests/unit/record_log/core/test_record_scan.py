"""The scan of a batch's records, from its source and as it was imported, which may be compiled."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from sharebroker_server.record_log.core import record_scan
from sharebroker_server.record_log.core.batch import HEADER_SIZE
from tests.architecture.sources import ROOT
from tests.unit.record_log.batches import of_records


def _source() -> ModuleType:
    path = ROOT / "libs/sharebroker_server/record_log/core/record_scan.py"
    spec = importlib.util.spec_from_file_location("record_scan_source", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCANS = pytest.mark.parametrize("scan", [_source(), record_scan], ids=["source", "imported"])


def records(*headers: tuple[str, bytes | None], count: int = 70, time: int = 10_000) -> bytes:
    """A batch with keys and values of different sizes; from the 65th on, offset deltas take two bytes."""
    return of_records(
        (
            offset * time,
            (None, b"", b"key")[offset % 3],
            None if offset % 5 == 0 else b"v" * offset,
            headers,
        )
        for offset in range(count)
    )


@SCANS
@pytest.mark.parametrize("batch", [
    pytest.param(records(), id="plain"),
    pytest.param(records(count=1), id="one record"),
    pytest.param(records(("name", b"value"), ("", None), ("name", b"")), id="headers"),
    pytest.param(records(time=1_000_000), id="far apart"),
])  # fmt: skip
def test_readable_records_with_consecutive_offsets_are_accepted(scan: ModuleType, batch: bytes) -> None:
    count = int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE])
    assert scan.has_consecutive_records(batch, HEADER_SIZE, count)


@SCANS
def test_other_counts_and_left_over_bytes_are_not_accepted(scan: ModuleType) -> None:
    batch = records(count=3)
    assert not scan.has_consecutive_records(batch, HEADER_SIZE, 2)
    assert not scan.has_consecutive_records(batch, HEADER_SIZE, 4)
    assert not scan.has_consecutive_records(batch + b"\0", HEADER_SIZE, 3)


@SCANS
def test_records_cut_off_anywhere_are_not_accepted(scan: ModuleType) -> None:
    batch = records(("name", b"value"), count=3)
    for end in range(HEADER_SIZE, len(batch)):
        assert not scan.has_consecutive_records(batch[:end], HEADER_SIZE, 3)


@SCANS
@pytest.mark.parametrize("record", [
    pytest.param(b"\x0c\0\0\x02\x01\x01\0", id="another offset"),
    pytest.param(b"\x0e\0\0\0\x01\x01\0\0", id="a longer record than its fields"),
    pytest.param(b"\x0a\0\0\0\x01\x01\0", id="a shorter one"),
    pytest.param(b"\x01\0\0\0\x01\x01\0", id="a negative size"),
    pytest.param(b"\x0c\0\0\0\x7e\x01\0", id="a key beyond the record"),
    pytest.param(b"\x16\0\0\0\x01\xfe\xff\xff\xff\x0f\0\0", id="a huge value"),
    pytest.param(b"\x0c\0\0\0\x01\x01\x01", id="a negative number of headers"),
    pytest.param(b"\x0c\0\0\0\x01\x01\x04", id="more headers than there are"),
    pytest.param(b"\x10\0\0\0\x01\x01\x02\x01\x01", id="a header without a name"),
    pytest.param(b"\x14\0\0\0\x01\x01\x02\x04\xc3\xa9\x01", id="a header name beyond ASCII"),
    pytest.param(b"\x0e\x80\0\0\0\x01\x01\0", id="attributes of two bytes"),
    pytest.param(b"\x8c\x80\x80\x80\x80\0\0\0\0\x01\x01\0", id="a number of six bytes"),
])  # fmt: skip
def test_a_record_that_is_not_plain_is_not_accepted(scan: ModuleType, record: bytes) -> None:
    header = bytes(HEADER_SIZE)
    assert scan.has_consecutive_records(header + b"\x0c\0\0\0\x01\x01\0", HEADER_SIZE, 1)
    assert not scan.has_consecutive_records(header + record, HEADER_SIZE, 1)
