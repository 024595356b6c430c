"""Record batches as Arrow: producers' batches are read as aiokafka reads them; mutated ones are rejected."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spark.environment import ENVIRONMENT, START_SECONDS, needs_spark, variables

pytestmark = [needs_spark, pytest.mark.timeout(START_SECONDS), pytest.mark.xdist_group("spark records")]
_ATTRIBUTES: Final = 22
_APPEND_TIME, _CONTROL = 0x08, 0x20
_HEADER: Final = 61
Look = Callable[..., str]


class Record(NamedTuple):
    """`gap`: offsets that are missing before it; `late`: milliseconds after the previous record."""

    gap: int
    late: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Shape(NamedTuple):
    """A batch; `times`: repeats its records, which makes many of one length."""

    records: list[Record]
    times: int
    compression: int
    attributes: int
    base: int


octets = (
    st.none() | st.binary(max_size=20) | st.integers(60, 70).map(bytes) | st.integers(8190, 8194).map(bytes)
)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
none: st.SearchStrategy[list[Any]] = st.just([])
late = st.integers(-3, 100) | st.integers(-(2**40), 2**40)
records = st.builds(Record, st.integers(0, 3), late, octets, octets, none | headers)
shapes = st.builds(
    Shape,
    st.lists(records, min_size=1, max_size=4),
    st.sampled_from([1, 2, 40, 150]),
    st.sampled_from([0, 0, 1, 2, 3, 4]),
    st.sampled_from([0, 0, 0, _APPEND_TIME, _CONTROL]),
    st.integers(0, 500),
)


def built(shapes: list[Shape]) -> tuple[bytes, int]:
    """Returns the batches, concatenated, and the offset behind the last."""
    content, end = b"", 0
    for shape in shapes:
        builder = DefaultRecordBatchBuilder(2, shape.compression, 0, -1, -1, -1, 1 << 30)
        offset, at = -1, 1_700_000_000_000
        for one in shape.records * shape.times:
            offset, at = offset + 1 + one.gap, at + one.late
            builder.append(offset, at, one.key, one.value, one.headers)
        batch = bytearray(builder.build())
        base = end + shape.base
        batch[:8] = base.to_bytes(8, "big")
        batch[_ATTRIBUTES] |= shape.attributes
        content, end = content + batch, base + offset + 1
    return content, end


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    folder = tmp_path_factory.mktemp("decoding")
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "tests.spark.programs.decoding"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables(folder), cwd=folder
    )
    assert process.stdin
    assert process.stdout
    requests, wait_for_value = process.stdin, process.stdout

    def reports(name: str) -> Any:
        return next(json.loads(line)[name] for line in wait_for_value if line.startswith("{"))

    def look(batches: bytes, first: int, last: int, *, bent: bool = False) -> str:
        asked = {"batches": batches.hex(), "first": first, "last": last, "bent": bent}
        requests.write(json.dumps(asked) + "\n")
        requests.flush()
        return str(reports("fault"))

    assert reports("ready")
    yield look
    requests.close()
    assert process.wait(60) == 0
    wait_for_value.close()


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(shapes, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_sent_records_are_read(look: Look, shapes: list[Shape], begin: float, end: float) -> None:
    content, behind = built(shapes)
    assert look(content, 0, behind) == ""
    assert look(content, round(begin * behind), round(end * behind)) == ""


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shapes, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4), st.data()
)
def test_corrupted_record_is_rejected(
    look: Look, shape: Shape, changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    content, behind = built([shape])
    bent = bytearray(content)
    for place, octet in changes:
        bent[place % len(bent)] = octet
    cut = data.draw(st.integers(0, len(bent)))
    assert look(bytes(bent), 0, behind, bent=True) == ""
    assert look(bytes(bent[:cut]), 0, behind, bent=True) == ""


def test_header_name_that_is_not_text_is_read(look: Look) -> None:
    content, behind = built([Shape([Record(0, 0, None, b"", [("name", b"")])], 1, 0, 0, 0)])
    bent = content.replace(b"name", b"\xff\xff\xff\xff")
    assert bent != content
    assert look(bent, 0, behind, bent=True) == ""


def test_header_that_exceeds_its_batch_is_corrupt(look: Look) -> None:
    content, behind = built([Shape([Record(0, 0, None, b"", [("name", b"text")])], 1, 0, 0, 0)])
    size = len(content) - len(b"text") - 1
    assert content[size] == len(b"text") << 1
    for octet in (10, 120):  # one octet and 56 octets beyond the end
        assert look(content[:size] + bytes([octet]) + content[size + 1 :], 0, behind, bent=True) == ""
