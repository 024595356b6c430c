"""Credentials in the header `authorization`."""

from __future__ import annotations

import base64

from sharebroker_server.security.authentication.authorization_header import BasicCredentials, parse_basic
from sharebroker_server.security.authentication.sasl import LONGEST_TOKEN
from tests.testkit.tables import each


@each(
    "header",
    [
        None,
        b"Basic YTpi",
        "",
        "Basic",
        "Basic !",
        "Basic YTpi=x",
        "Basic " + base64.b64encode(b"\xff:b").decode(),
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b":b").decode(),
        "Basic " + base64.b64encode(b"a:").decode(),
        "Basic " + "YTpi" * LONGEST_TOKEN,
    ],
)
def test_malformed_headers_have_no_credentials(header: object) -> None:
    assert parse_basic(header) is None


def test_a_header_has_name_and_password() -> None:
    assert parse_basic("basic YTpiOmM=") == BasicCredentials("a", "b:c")
    assert "b:c" not in repr(parse_basic("basic YTpiOmM="))
