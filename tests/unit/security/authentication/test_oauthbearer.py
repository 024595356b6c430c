"""Messages of SASL OAUTHBEARER."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.security.authentication.oauthbearer import (
    LONGEST_BEARER_TOKEN,
    InitialResponse,
    parse_bearer,
    parse_initial_response,
)
from tests.testkit.tables import each


@pytest.mark.parametrize(
    ("text", "token", "authorization"),
    [
        ("n,,\1auth=Bearer a.b-c_9\1\1", "a.b-c_9", ""),
        ("n,a=alice,\1auth=bearer  t\1\1", "t", "alice"),
        ("n,a=a=2Cb=3Dc,\1auth=BEARER t\1\1", "t", "a,b=c"),
        ("n,,\1traceId=1 2\1auth=Bearer t\1logicalCluster=x\1\1", "t", ""),
    ],
)
def test_first_messages(text: str, token: str, authorization: str) -> None:
    assert parse_initial_response(text) == InitialResponse(token, authorization)


@each(
    "text",
    [
        "",
        "n,,\1auth=Bearer t",
        "n,,\1auth=Bearer t\1",
        "n,,\1\1",
        "y,,\1auth=Bearer t\1\1",
        "n,a=,\1auth=Bearer t\1\1",
        "n,a=b=c,\1auth=Bearer t\1\1",
        "n,,\1auth=Basic t\1\1",
        "n,,\1auth=Bearer \1\1",
        "n,,\1auth=Bearer t t\1\1",
        "n,,\1auth=Bearer t\1auth=Bearer t\1\1",
        "n,,\1auth=Bearer t\0\1\1",
        "n,,\1auth=Bearer t\1x1=y\1\1",
        "n,,\1auth=Bearer t\1x=\1\1",
        "n,,\1auth=Bearer t\1\1\1",
        "n,,\1extension=x\1\1",
    ],
)
def test_malformed_messages(text: str) -> None:
    assert parse_initial_response(text) is None


@given(st.text())
def test_any_text_is_a_message_or_malformed(text: str) -> None:
    found = parse_initial_response(text)
    assert found is None or found.token in text


def test_the_text_of_a_message_contains_no_token() -> None:
    assert "secret" not in repr(parse_initial_response("n,,\1auth=Bearer secret\1\1"))


@pytest.mark.parametrize(
    ("credentials", "token"),
    [
        ("Bearer a.b.c", "a.b.c"),
        ("bearer a.b.c", "a.b.c"),
        ("Basic YTpi", None),
        ("Bearer", None),
        ("Bearer a b", None),
        (b"Bearer a", None),
        (None, None),
        ("Bearer " + "a" * LONGEST_BEARER_TOKEN, None),
    ],
)
def test_bearer_credentials(credentials: object, token: str | None) -> None:
    assert parse_bearer(credentials) == token
