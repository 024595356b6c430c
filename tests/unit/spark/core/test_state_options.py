"""The options of the state format."""

from __future__ import annotations

import pytest

from sharebroker_spark.core.options import OptionError
from sharebroker_spark.core.state_options import StateOptions, state_options

SERVER = {"bootstrap": "127.0.0.1:9090"}


def test_options() -> None:
    assert state_options(SERVER) == StateOptions("127.0.0.1:9090")
    encrypted = "tls://127.0.0.1:9090?ca=/etc/ca.pem&cert=/etc/me.pem&key=/etc/me.key"
    assert state_options({"bootstrap": encrypted}) == StateOptions(encrypted)
    given = SERVER | {"groups": " a, b,a,", "topics": "t", "onUnavailable": "Wait", "path": "x"}
    assert state_options(given) == StateOptions("127.0.0.1:9090", ("a", "b"), ("t",), waits=True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "option bootstrap is ''"),
        (SERVER | {"grups": "a"}, "unknown option grups; the options are bootstrap, groups"),
        (SERVER | {"onUnavailable": "perhaps"}, "it must be fail or wait"),
    ],
)
def test_invalid_state_options_are_rejected(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        state_options(given)
