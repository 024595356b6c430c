"""Java's property files, references to secrets, and login modules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.properties import (
    LoginModule,
    Reference,
    parse_jaas,
    parse_properties,
    resolved,
)
from tests.testkit.tables import each

SECRET = "s3cret-word"


@each(
    "text, expected",
    [
        ("", {}),
        ("a=1\nb=2", {"a": "1", "b": "2"}),
        ("# comment\n! another\n\n  a = 1 ", {"a": "1 "}),
        ("a:1\r\nb 2\rc", {"a": "1", "b": "2", "c": ""}),
        ("a = = 1", {"a": "= 1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n#3", {"a": "1,2,#3"}),
        ("a=ends \\\\\nb=2", {"a": "ends \\", "b": "2"}),
        (r"a\=b\ c=\t\u00e9\q", {"a=b c": "\t\u00e9q"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_files_are_read_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_an_invalid_escape_names_its_line_without_its_text() -> None:
    with pytest.raises(ValueError, match=r"^line 2: \\u needs four hexadecimal digits$"):
        parse_properties(f"a=1\npassword={SECRET}\\u12\nc=3")


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_escaped_properties_are_read_back(values: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{unit:04x}" for unit in _units(text))

    text = "\n".join(f"{escaped(name)}={escaped(value)}" for name, value in values.items())
    assert {_joined(k): _joined(v) for k, v in parse_properties(text).items()} == values


def _units(text: str) -> list[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]


def _joined(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def test_references_are_replaced_within_values() -> None:
    read = {
        Reference("env", "USER"): "me",
        Reference("file", "/a/b", "key"): SECRET,
        Reference("dir", "/c", "d"): "${env:USER}",
    }
    given = {"a": 'username="${env:USER}" password="${file:/a/b:key}"', "b": "${dir:/c:d}", "c": "${x:y}"}
    assert resolved(given, read.__getitem__) == {
        "a": f'username="me" password="{SECRET}"',
        "b": "${env:USER}",
        "c": "${x:y}",
    }


def test_a_failed_reference_names_property_and_reference() -> None:
    def read(reference: Reference) -> str:
        raise ValueError("the variable is not set")

    with pytest.raises(KafkaError) as failure:
        resolved({"sasl.password": "${env:WORD}"}, read)
    assert failure.value.code == ErrorCode.INVALID_CONFIG
    assert failure.value.message == "sasl.password: ${env:WORD} cannot be read: the variable is not set"


@each(
    "text, expected",
    [
        ("a.b.PlainLoginModule required;", LoginModule("PlainLoginModule", {})),
        (
            """org.x.ScramLoginModule required username="a\\"b" password='c;d' e=f ;""",
            LoginModule("ScramLoginModule", {"username": 'a"b', "password": "c;d", "e": "f"}),
        ),
    ],
)
def test_login_modules_are_read(text: str, expected: LoginModule) -> None:
    assert parse_jaas(text) == expected


@each(
    "text", ["", "PlainLoginModule", f"a.B required password={SECRET}", f'a.B required password="{SECRET};']
)
def test_an_invalid_login_module_keeps_its_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(it must start|after the login module)") as failure:
        parse_jaas(text)
    assert SECRET not in str(failure.value)
