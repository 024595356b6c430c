"""Whatever a client sends: an exchange ends within three steps, and succeeds only with a correct proof."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.sasl import (
    MECHANISMS,
    Challenge,
    PasswordCheck,
    SaslExchange,
    Success,
)
from sharebroker_server.security.authentication.scram import SCRAM
from tests.testkit.sasl import MemoryUsers, ScramClient, plain

USERS = MemoryUsers({"alice": "pencil"})
PIECES = st.sampled_from(
    [b"n,,", b"y,,", b"n=alice", b"n=bob", b",", b"r=abc", b"r=", b"c=biws", b"p=AAAA", b"\0"]
)
TOKENS = st.one_of(
    st.binary(max_size=60), st.lists(PIECES, max_size=8).map(b"".join), st.just(plain("alice", "pencil"))
)
EXPECTED = {
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
}


def exchange() -> SaslExchange:
    return SaslExchange(MECHANISMS, lambda mechanism, _: USERS.by_name["alice"][mechanism])


@given(st.one_of(st.sampled_from(MECHANISMS), st.text(max_size=5)), st.lists(TOKENS, min_size=3, max_size=6))
def test_no_sequence_of_tokens_authenticates_without_a_proof(mechanism: str, tokens: list[bytes]) -> None:
    made = exchange()
    try:
        made.start(mechanism)
        for token in tokens:
            outcome = made.step(token)
            assert not isinstance(outcome, Success)
            if isinstance(outcome, PasswordCheck):
                made.checked((outcome.name, outcome.password) == ("alice", "pencil"))
                assert (outcome.name, outcome.password) == ("alice", "pencil")
                return
    except KafkaError as error:
        if error.code not in EXPECTED:
            raise
    assert made.ended


@given(st.sampled_from(sorted(SCRAM)), st.integers(0, 1_000), st.integers(0, 255))
def test_a_changed_byte_of_the_last_message_never_authenticates(mechanism: str, at: int, byte: int) -> None:
    made, client = exchange(), ScramClient(mechanism, "alice", "pencil")
    made.start(mechanism)
    first = made.step(client.first())
    assert isinstance(first, Challenge)
    final = bytearray(client.final(first.token))
    changed = final[at % len(final)] != byte
    final[at % len(final)] = byte
    if changed:
        with pytest.raises(KafkaError) as caught:
            made.step(bytes(final))
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    else:
        assert isinstance(made.step(bytes(final)), Success)
