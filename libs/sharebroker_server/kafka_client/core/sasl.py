"""The client's side of a SASL exchange: PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628).

An exchange is a generator. It yields the tokens for the broker, and is sent the token of each response. It
returns when the broker has proved what the mechanism requires of it.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.scram import (
    MIN_ITERATIONS,
    OAUTHBEARER,
    PLAIN,
    SCRAM,
    ScramMechanism,
    salted_password,
)

MOST_ITERATIONS: Final = 1_000_000
"""A server that requires more would make the client compute for seconds."""

Exchange = Generator[bytes, bytes, None]


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and password for a mechanism. The text of the object contains no secret.

    With OAUTHBEARER the password is the access token; `extensions` are sent with it (KIP-342).
    """

    mechanism: str
    username: str
    password: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)


def exchange(credentials: Credentials, nonce: str) -> Exchange:
    """Returns a new exchange. A step of SCRAM takes milliseconds of CPU time.

    `nonce` is random printable text without commas.

    Raises:
        KafkaError: UNSUPPORTED_SASL_MECHANISM. Steps raise SASL_AUTHENTICATION_FAILED if the broker's token
            is invalid.
    """
    if credentials.mechanism == PLAIN:
        return _plain(credentials)
    if credentials.mechanism == OAUTHBEARER:
        return _oauthbearer(credentials)
    mechanism = SCRAM.get(credentials.mechanism)
    if mechanism is None:
        known = ", ".join((PLAIN, *SCRAM, OAUTHBEARER))
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"The client has the mechanisms {known}, not {credentials.mechanism}.",
        )
    return _scram(mechanism, credentials, nonce)


def _plain(credentials: Credentials) -> Exchange:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _oauthbearer(credentials: Credentials) -> Exchange:
    pairs = {"auth": f"Bearer {credentials.password}", **credentials.extensions}
    refused = yield "".join(
        ("n,,\x01", *(f"{name}={text}\x01" for name, text in pairs.items()), "\x01")
    ).encode()
    if refused:
        # The broker explains a refusal first, and ends the exchange after this token (RFC 7628, 3.2.3).
        yield b"\x01"
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "The broker refused the access token.")


def _scram(mechanism: ScramMechanism, credentials: Credentials, nonce: str) -> Exchange:
    user = credentials.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={user},r={nonce}"
    server_first = _text((yield f"n,,{first}".encode()))
    values = _attributes(server_first)
    salt, iterations = _base64(values.get("s", "")), _iterations(values.get("i", ""))
    server_nonce = values.get("r", "")
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise _invalid("its nonce does not continue the client's")
    salted = salted_password(mechanism, credentials.password, salt, iterations)
    without_proof = f"c={b64encode(b'n,,').decode()},r={server_nonce}"
    signed = f"{first},{server_first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash)
    stored_key = hashlib.new(mechanism.hash, client_key).digest()
    signature = hmac.digest(stored_key, signed, mechanism.hash)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = _text((yield f"{without_proof},p={b64encode(proof).decode()}".encode()))
    server_key = hmac.digest(salted, b"Server Key", mechanism.hash)
    expected = hmac.digest(server_key, signed, mechanism.hash)
    if not hmac.compare_digest(_base64(_attributes(server_final).get("v", "")), expected):
        raise _invalid("it does not prove that the broker has the user's credential")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise _invalid("it is not UTF-8") from None


def _attributes(text: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in pairs}


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise _invalid("a value is not Base64") from None


def _iterations(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MOST_ITERATIONS)) else 0
    if not MIN_ITERATIONS <= number <= MOST_ITERATIONS:
        raise _invalid(f"the number of iterations is not {MIN_ITERATIONS} to {MOST_ITERATIONS}")
    return number


def _invalid(reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"The broker's SCRAM message is invalid: {reason}."
    )
