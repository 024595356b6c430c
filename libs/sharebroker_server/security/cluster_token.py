"""The token by which processes of one cluster recognise each other.

Theory of operation
-------------------

All processes of a cluster share secrets. A process adds a token to each call to a peer; the peer serves
internal RPCs only to callers with a valid token. A token contains a time and the name of the process, and an
HMAC-SHA256 over both under a secret. It proves that its signer has the secret, and reveals nothing of it.

A token is valid for `VALIDITY` seconds before and after its time, so the clocks of two processes may differ
by almost that much. A process renews its token every `RENEWAL` seconds. Without TLS an eavesdropper can copy
a token and use it until it expires.

Rotation.  Secrets have an order: the first signs, all are accepted. Processes read a change at different
times, at most a few seconds apart. Two rules keep them able to verify each other meanwhile:
  1. a secret that was not listed before signs only after `SETTLING` seconds, when every peer accepts it;
  2. a removed secret is accepted for `RETIREMENT` more seconds, until every peer signs with the new one.
A process that starts in between has only the new secrets and rejects those peers that still sign with the
removed one, for at most `SETTLING` seconds. Listing both secrets during the change avoids this.

`ClusterSecrets` applies these rules; it and the functions take the time as an argument.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple

VALIDITY: Final = 300
"""Seconds before and after its time during which a token is valid."""

RENEWAL: Final = 60.0
"""Seconds after which a process signs a new token."""

SETTLING: Final = 6.0
"""Seconds after which a new secret signs: three times the interval at which processes read the secrets."""

RETIREMENT: Final = 120.0
"""Seconds for which a removed secret is accepted."""

LONGEST_TOKEN: Final = 256
"""Maximum characters of a token; longer ones are rejected before any computation."""

MAX_VERIFIED: Final = 1024
"""Maximum number of verified tokens that are cached."""

MIN_SECRET: Final = 16
"""Minimum bytes of a secret."""

MAX_SECRETS: Final = 8
"""Maximum number of secrets in a list, and of removed secrets that are still accepted."""

_CONTEXT: Final = b"sharebroker-cluster-token "
_MAC_LENGTH: Final = 64


class TokenVerdict(Enum):
    """The result of a verification."""

    VALID = "valid"
    MISSING = "no token"
    MALFORMED = "malformed token"
    UNKNOWN_SECRET = "signed with another secret"
    EXPIRED = "expired, or the clocks differ by more than five minutes"


class _Token(NamedTuple):
    """The parts of a token: `signed` is what the HMAC covers, `time` in seconds since the epoch."""

    mac: bytes
    signed: bytes
    time: int


def sign(secret: bytes, process: str, now: float) -> str:
    """Returns the token of a process (its owner name in leases) at a time in seconds since the epoch."""
    signed = f"{int(now)}.{process}".encode()
    return f"{_mac(secret, signed).decode()}.{signed.decode()}"


def verify(secrets: Iterable[bytes], token: str | None, now: float) -> TokenVerdict:
    """Returns whether one of the secrets signed the token and its time is within `VALIDITY`.

    The comparison takes the same time for every MAC.
    """
    if token is None:
        return TokenVerdict.MISSING
    parts = _parse(token)
    if parts is None:
        return TokenVerdict.MALFORMED
    matches = [hmac.compare_digest(_mac(secret, parts.signed), parts.mac) for secret in secrets]
    if not any(matches):
        return TokenVerdict.UNKNOWN_SECRET
    return TokenVerdict.VALID if abs(now - parts.time) <= VALIDITY else TokenVerdict.EXPIRED


def parse_secrets(text: bytes) -> tuple[bytes, ...]:
    """Returns the secrets of a text with one per line, without repetitions.

    Raises ValueError with a reason, which contains no secret.
    """
    secrets = tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not secrets:
        raise ValueError("it contains no secret")
    if len(secrets) > MAX_SECRETS:
        raise ValueError(f"it contains more than {MAX_SECRETS} secrets")
    if min(map(len, secrets)) < MIN_SECRET:
        raise ValueError(f"a secret has fewer than {MIN_SECRET} bytes")
    return secrets


class ClusterSecrets:
    """The accepted secrets, the one that signs, and the tokens that were verified recently."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._listed = tuple(secrets)
        self._signing = self._listed[0]
        self._listed_since: dict[bytes, float] = {}
        self._retired: dict[bytes, float] = {}
        self._verified: dict[str, float] = {}

    @property
    def listed(self) -> Sequence[bytes]:
        """The secrets as they were read last."""
        return self._listed

    def replace(self, secrets: Sequence[bytes], now: float) -> bool:
        """Replaces the list; returns whether it differs. To be called regularly, also without a change."""
        new = tuple(secrets)
        changed = new != self._listed
        if changed:
            # Also a secret that was listed before and removed: a peer may have missed that list.
            self._listed_since |= {secret: now for secret in new if secret not in self._listed}
            self._retire(new, now)
            self._listed = new
            self._verified.clear()
        self._expire(now)
        if self._is_settled(new[0], now) or self._signing not in {*new, *self._retired}:
            self._signing = new[0]
        return changed

    def token(self, process: str, now: float) -> str:
        """Returns a new token of this process."""
        return sign(self._signing, process, now)

    @property
    def signing(self) -> bytes:
        """The secret that signs now."""
        return self._signing

    def verify(self, token: str | None, now: float) -> TokenVerdict:
        """Returns whether a token is valid; a verified one is looked up."""
        if token is not None and self._verified.get(token, -1.0) >= now:
            return TokenVerdict.VALID
        self._expire(now)
        verdict = verify((*self._listed, *self._retired), token, now)
        if verdict is TokenVerdict.VALID and token is not None:
            self._remember(token, now)
        return verdict

    def _remember(self, token: str, now: float) -> None:
        parts = _parse(token)
        if parts is None:
            return
        if len(self._verified) >= MAX_VERIFIED:
            self._verified.clear()
        # The cache must not accept a removed secret for longer than the list does.
        self._verified[token] = min(parts.time + VALIDITY, *self._retired.values(), now + VALIDITY)

    def _retire(self, new: Sequence[bytes], now: float) -> None:
        """Keeps the removed secrets; of too many, those that were removed last."""
        removed = dict.fromkeys(self._listed, now + RETIREMENT)
        kept = [pair for pair in (self._retired | removed).items() if pair[0] not in new]
        self._retired = dict(sorted(kept, key=lambda pair: pair[1])[-MAX_SECRETS:])

    def _is_settled(self, secret: bytes, now: float) -> bool:
        """Returns whether every peer accepts the secret by now."""
        since = self._listed_since.get(secret)
        return since is None or since + SETTLING <= now

    def _expire(self, now: float) -> None:
        self._retired = {secret: until for secret, until in self._retired.items() if until > now}
        self._listed_since = {s: since for s, since in self._listed_since.items() if s in self._listed}


def _mac(secret: bytes, signed: bytes) -> bytes:
    return hmac.new(secret, _CONTEXT + signed, "sha256").hexdigest().encode()


def _parse(token: str) -> _Token | None:
    if len(token) > LONGEST_TOKEN or not token.isascii():
        return None
    mac, _, signed = token.partition(".")
    time, _, process = signed.partition(".")
    if len(mac) != _MAC_LENGTH or not time.isdecimal() or len(time) > 12 or not process:
        return None
    return _Token(mac.encode(), signed.encode(), int(time))
