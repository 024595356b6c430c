from __future__ import annotations

import json

import pytest

from sharebroker.cli.reading import BadInputError, CountedLines, Fields, Format, Input, read


def test_lines_are_unchanged_values() -> None:
    assert list(read([b"a\n", b" b \r\n", b"\n", b"\xff"], Format.LINES)) == [
        Input(None, b"a"),
        Input(None, b" b "),
        Input(None, b""),
        Input(None, b"\xff"),
    ]


def test_key_is_the_text_before_the_first_separator() -> None:
    lines = [b"a::b::c\n", b"::b", b"a::"]
    assert list(read(lines, Format.LINES, key_separator=b"::")) == [
        Input(b"a", b"b::c"),
        Input(b"", b"b"),
        Input(b"a", b""),
    ]
    with pytest.raises(BadInputError, match="Line 2 has no key separator ':'"):
        list(read([b"a:b", b"c"], Format.LINES, key_separator=b":"))


def test_bytes_of_read_lines_are_counted() -> None:
    lines = CountedLines([b"ab\n", b"c"])
    assert [(line, lines.read_bytes) for line in lines] == [(b"ab\n", 3), (b"c", 4)]


def test_json_lines_keep_their_bytes_and_skip_blank_lines() -> None:
    lines = [b'{"id": 7, "name": "\xc3\xa4"}\n', b"\n", b'{"id": "x"}']
    assert list(read(lines, Format.JSONL, Fields("id"))) == [
        Input(b"7", b'{"id": 7, "name": "\xc3\xa4"}'),
        Input(b"x", b'{"id": "x"}'),
    ]
    assert list(read([b"[1]"], Format.JSONL)) == [Input(None, b"[1]")]
    assert list(read([b'{"id": null}'], Format.JSONL, Fields("id"))) == [Input(None, b'{"id": null}')]


@pytest.mark.parametrize(
    ("lines", "written"),
    [
        ([b'{"id": 7, "job": "a"}', b'{"id": 8, "job": null}'], Format.JSONL),
        ([b"id,job", b"7,a"], Format.CSV),
    ],
)
def test_message_ids_are_read_from_their_field(lines: list[bytes], written: Format) -> None:
    found = list(read(lines, written, Fields("id", "job")))
    assert (found[0].key, found[0].message_id) == (b"7", b"a")
    assert all(record.message_id is None for record in found[1:])
    with pytest.raises(BadInputError, match="has no field 'other'"):
        list(read(lines, written, Fields(None, "other")))


def test_csv_rows_become_json_objects() -> None:
    lines = [b"\xef\xbb\xbfid,name\r\n", b'7,"a ""b""\n', b' c"\n', b"8,\n"]
    found = list(read(lines, Format.CSV, Fields("id")))
    assert [(record.key, json.loads(record.value)) for record in found] == [
        (b"7", {"id": "7", "name": 'a "b"\n c'}),
        (b"8", {"id": "8", "name": ""}),
    ]


@pytest.mark.parametrize(
    ("lines", "written", "key", "message"),
    [
        ([b"{}\n", b"{\n"], Format.JSONL, None, "Line 2 is not JSON"),
        ([b"[1]\n"], Format.JSONL, "id", "Line 1 is not a JSON object"),
        ([b'{"a": 1}\n'], Format.JSONL, "id", "Line 1 has no field 'id'; it has a."),
        ([b'{"id": "\\ud800"}\n'], Format.JSONL, "id", "Line 1 has an unpaired surrogate in field 'id'"),
        ([b"a,b\n", b"1\n"], Format.CSV, None, "Line 2 does not have as many fields"),
        ([b"a,b\n", b"1,2,3\n"], Format.CSV, None, "Line 2 does not have as many fields"),
        ([b"a,b\n", b'1,"2\n'], Format.CSV, None, "is not CSV"),
        ([b"a\n", b"\xff\n"], Format.CSV, None, "Line 2 is not CSV"),
        ([b"a\n", b"1\n"], Format.CSV, "id", "Line 2 has no field 'id'"),
    ],
)
def test_bad_input_names_its_line(lines: list[bytes], written: Format, key: str | None, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        list(read(lines, written, Fields(key)))
