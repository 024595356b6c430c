"""Verifies passwords (SASL PLAIN, HTTP Basic) outside the event loop.

A verification derives a key with 4,096 to 16,384 iterations, which takes milliseconds of CPU time. One thread
does that, so that wrong passwords use one core at most; further verifications wait, and beyond a bound they
are rejected. The time of a derivation depends on the credential and would show which users exist, so a wrong
password is reported at a multiple of 50 ms. A password that was correct is cached under a keyed hash, so that
a client that sends it with each call is verified once in five minutes. The hash covers the credential: a
changed or deleted credential is effective at once.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism, matches

THREADS: Final = 1
MAX_WAITING: Final = 200
"""The largest number of verifications that run or wait."""

MAX_CACHED: Final = 10_000
CACHED_FOR: Final = 300.0
"""The largest number of cached passwords, and the seconds for which each is cached."""

_RETRY_AFTER: Final = 0.5
_FAILURE_STEP: Final = 0.05
"""Seconds; longer than a derivation takes on an idle machine."""

FindPassword = Callable[[str], tuple[ScramMechanism, ScramCredential]]
"""Returns a credential of the user with a name, or a dummy."""


class PasswordVerifier:
    """Verifies passwords against the credentials that `find` returns. `now` returns monotonic seconds."""

    def __init__(self, find: FindPassword, now: Callable[[], float] = monotonic) -> None:
        self._find = find
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._verified: dict[bytes, float] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0

    async def verify(self, name: str, password: str) -> bool:
        """Returns whether the user has the password. Raises THROTTLING_QUOTA_EXCEEDED."""
        mechanism, credential = self._find(name)
        digest = self._digest(credential, name, password)
        started = self._now()
        if self._verified.get(digest, -1.0) >= started:
            return True
        if self._waiting >= MAX_WAITING:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                "Too many passwords are being verified.",
                retry_after=_RETRY_AFTER,
            )
        self._waiting += 1
        try:
            correct = await asyncio.get_running_loop().run_in_executor(
                self._executor(), matches, mechanism, credential, password
            )
        finally:
            self._waiting -= 1
        if correct:
            self._remember(digest)
        else:
            await asyncio.sleep(_FAILURE_STEP - (self._now() - started) % _FAILURE_STEP)
        return correct

    def close(self) -> None:
        """Stops the thread; verifications that wait are cancelled."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _executor(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(THREADS, thread_name_prefix="password")
        return self._thread

    def _digest(self, credential: ScramCredential, name: str, password: str) -> bytes:
        # The stored key has a fixed length and the name contains no NUL: no two inputs have the same text.
        text = b"\0".join((name.encode(), password.encode()))
        return hmac.digest(self._secret, credential.stored_key + text, "sha256")

    def _remember(self, digest: bytes) -> None:
        if len(self._verified) >= MAX_CACHED:
            del self._verified[next(iter(self._verified))]  # the oldest
        self._verified[digest] = self._now() + CACHED_FOR
