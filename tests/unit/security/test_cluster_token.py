"""Tokens: which are valid, and which secret signs and is accepted during a rotation."""

from __future__ import annotations

import pytest

from sharebroker_server.security.cluster_token import (
    LONGEST_TOKEN,
    MAX_SECRETS,
    MAX_VERIFIED,
    RETIREMENT,
    SETTLING,
    VALIDITY,
    ClusterSecrets,
    TokenVerdict,
    parse_secrets,
    sign,
    verify,
)
from tests.testkit.tables import each

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
NOW = 1_800_000_000.0
TOKEN = sign(A, "7/1", NOW)


@each(
    "token, after, verdict",
    [
        (TOKEN, 0, TokenVerdict.VALID),
        (TOKEN, VALIDITY, TokenVerdict.VALID),
        (TOKEN, -VALIDITY, TokenVerdict.VALID),
        (TOKEN, VALIDITY + 1, TokenVerdict.EXPIRED),
        (TOKEN, -VALIDITY - 1, TokenVerdict.EXPIRED),
        (sign(B, "7/1", NOW), 0, TokenVerdict.VALID),
        (sign(C, "7/1", NOW), 0, TokenVerdict.UNKNOWN_SECRET),
        (TOKEN + "2", 0, TokenVerdict.UNKNOWN_SECRET),
        (TOKEN.replace(".18", ".19"), 0, TokenVerdict.UNKNOWN_SECRET),
        (None, 0, TokenVerdict.MISSING),
        ("", 0, TokenVerdict.MALFORMED),
        (".", 0, TokenVerdict.MALFORMED),
        ("0" * 64 + ".1.", 0, TokenVerdict.MALFORMED),
        ("0" * 64 + ".-1.p", 0, TokenVerdict.MALFORMED),
        ("0" * 64 + ".1234567890123.p", 0, TokenVerdict.MALFORMED),
        ("0" * 63 + "ü.1.p", 0, TokenVerdict.MALFORMED),
        (TOKEN + "p" * LONGEST_TOKEN, 0, TokenVerdict.MALFORMED),
    ],
)
def test_which_tokens_are_valid(token: str | None, after: float, verdict: TokenVerdict) -> None:
    assert verify((A, B), token, NOW + after) is verdict
    assert ClusterSecrets((A, B)).verify(token, NOW + after) is verdict


def test_a_token_contains_no_secret() -> None:
    assert A.decode() not in TOKEN
    assert TOKEN.endswith(".1800000000.7/1")


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (A, (A,)),
        (b"\n " + A + b" \r\n\n" + B + b"\n", (A, B)),
        (A + b"\n" + A, (A,)),
    ],
)
def test_a_list_has_one_secret_per_line(text: bytes, secrets: tuple[bytes, ...]) -> None:
    assert parse_secrets(text) == secrets


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "contains no secret"),
        (b" \n\n", "contains no secret"),
        (b"hush", "fewer than 16 bytes"),
        (A + b"\nhush", "fewer than 16 bytes"),
        (b"\n".join(b"%016d" % number for number in range(MAX_SECRETS + 1)), "more than 8 secrets"),
    ],
)
def test_an_unusable_list_is_rejected_without_its_secrets(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        parse_secrets(text)
    assert "hush" not in str(error.value)


def test_a_new_secret_is_accepted_at_once_and_signs_later() -> None:
    secrets = ClusterSecrets((A,))
    assert secrets.replace((B,), NOW)
    assert secrets.signing is A
    assert secrets.verify(sign(B, "7/1", NOW), NOW) is TokenVerdict.VALID
    assert not secrets.replace((B,), NOW + SETTLING - 0.1)
    assert secrets.signing is A
    assert not secrets.replace((B,), NOW + SETTLING)
    assert secrets.signing is B
    assert secrets.token("7/1", NOW) == sign(B, "7/1", NOW)


def test_a_secret_that_was_listed_long_enough_signs_at_once() -> None:
    secrets = ClusterSecrets((A, B))
    secrets.replace((B, A), NOW)
    assert secrets.signing is B


def test_a_removed_secret_is_accepted_for_a_while() -> None:
    secrets = ClusterSecrets((A,))
    token = sign(A, "7/1", NOW + RETIREMENT)
    assert secrets.verify(token, NOW) is TokenVerdict.VALID
    secrets.replace((B,), NOW)
    assert secrets.verify(token, NOW + RETIREMENT - 1) is TokenVerdict.VALID
    assert secrets.verify(token, NOW + RETIREMENT + 1) is TokenVerdict.UNKNOWN_SECRET


def test_a_secret_that_is_listed_again_stays_accepted() -> None:
    secrets = ClusterSecrets((A,))
    secrets.replace((B,), NOW)
    secrets.replace((A,), NOW + 1)
    assert secrets.signing is A
    assert secrets.verify(sign(A, "7/1", NOW), NOW + RETIREMENT + 2) is TokenVerdict.VALID


def test_the_number_of_removed_secrets_is_bounded() -> None:
    secrets = ClusterSecrets((A,))
    several = [b"%016d" % number for number in range(MAX_SECRETS + 1)]
    for number, secret in enumerate(several):
        secrets.replace((secret,), NOW + number)
    assert secrets.verify(TOKEN, NOW) is TokenVerdict.UNKNOWN_SECRET
    assert secrets.verify(sign(several[0], "7/1", NOW), NOW) is TokenVerdict.VALID
    assert secrets.signing == several[-1], "the secret that signed is not accepted any more"


def test_the_cache_of_verified_tokens_is_bounded() -> None:
    secrets = ClusterSecrets((A,))
    for number in range(MAX_VERIFIED + 2):
        assert secrets.verify(sign(A, f"{number}/1", NOW), NOW) is TokenVerdict.VALID
    assert len(secrets._verified) <= MAX_VERIFIED
