"""Passwords and access tokens of clients: when they are read, and that errors do not contain them."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sharebroker_protocol import credentials
from sharebroker_protocol.credentials import (
    Basic,
    Bearer,
    ProvidedToken,
    TokenError,
    checked_token,
    expiry,
    read_password,
    read_token,
)
from tests.testkit.issuer import token as signed

NOW = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(credentials, "time", made)
    return made


class Clock:
    """The time, which a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Provider:
    """Returns a new token of a lifetime for each call, or raises."""

    def __init__(self, clock: Clock, lifetime: float = 100.0) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self.made: list[str] = []
        self.failure: Exception | None = None

    def __call__(self) -> str:
        if self.failure is not None:
            raise self.failure
        self.made.append(signed(algorithm="ES256", lifetime=self._lifetime, now=self._clock.now))
        return self.made[-1]


def passed(plugin: Callable[[Any, Any], None]) -> tuple[object, object]:
    """Returns what a plugin passes to gRPC."""
    found: list[tuple[object, object]] = []
    plugin(None, lambda metadata, error: found.append((metadata, error)))
    (only,) = found
    return only


def test_basic_has_name_and_password() -> None:
    assert passed(Basic("alice", "größe")) == ((("authorization", "Basic YWxpY2U6Z3LDtsOfZQ=="),), None)


def test_bearer_has_the_token_or_an_error() -> None:
    assert passed(Bearer(lambda: "a.b.c")) == ((("authorization", "Bearer a.b.c"),), None)

    def fails() -> str:
        raise TokenError("none")

    metadata, error = passed(Bearer(fails))
    assert not metadata
    assert isinstance(error, TokenError)


def test_token_is_replaced_after_four_fifths_of_its_lifetime(clock: Clock) -> None:
    provider = Provider(clock)
    provided = ProvidedToken(provider, None)
    seen = []
    for clock.now in (NOW, NOW + 79, NOW + 81, NOW + 160):
        seen.append(provided())
    assert seen == [provider.made[0], provider.made[0], provider.made[1], provider.made[1]]


def test_previous_token_is_used_while_the_provider_fails(clock: Clock) -> None:
    provider = Provider(clock)
    provided = ProvidedToken(provider, None)
    first = provided()
    provider.failure = RuntimeError("the client secret is hush")
    clock.now = NOW + 99
    assert provided() == first
    clock.now = NOW + 101
    with pytest.raises(TokenError) as caught:
        provided()
    assert str(caught.value) == "There is no access token: RuntimeError"
    assert caught.value.__suppress_context__
    provider.failure = None
    assert provided() == provider.made[1]


def test_previous_token_is_used_while_another_thread_replaces_it(clock: Clock) -> None:
    provider = Provider(clock)
    started, proceed = threading.Event(), threading.Event()

    def slow() -> str:
        if provider.made:
            started.set()
            assert proceed.wait(30)
        return provider()

    provided = ProvidedToken(slow, None)
    first = provided()
    clock.now = NOW + 90
    thread = threading.Thread(target=provided)
    thread.start()
    assert started.wait(30)
    assert provided() == first
    proceed.set()
    thread.join(30)
    assert provided() == provider.made[1]


def test_token_without_expiry_is_used_once(clock: Clock) -> None:
    made = iter(("opaque1", "opaque2"))
    provided = ProvidedToken(lambda: next(made), None)
    assert [provided(), provided()] == ["opaque1", "opaque2"]


async def test_coroutines_run_in_the_event_loop(clock: Clock) -> None:
    provider = Provider(clock)
    loop = asyncio.get_running_loop()

    async def provide() -> str:
        assert asyncio.get_running_loop() is loop
        return provider()

    assert await asyncio.to_thread(ProvidedToken(provide, loop)) == provider.made[0]
    with pytest.raises(TokenError, match="blocking channel"):
        ProvidedToken(provide, None)()


async def test_a_coroutine_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "PROVIDER_SECONDS", 0.05)

    async def provide() -> str:
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(TokenError, match="TimeoutError"):
        await asyncio.to_thread(ProvidedToken(provide, asyncio.get_running_loop()))


@pytest.mark.parametrize("token", ["", "a b", "ä", "a\nb", "x" * 16_385, None, b"a.b.c"])
def test_invalid_token_is_rejected_without_its_text(token: object) -> None:
    with pytest.raises(TokenError) as caught:
        checked_token(token)
    assert str(caught.value).startswith("a token consists of")


def test_expiry_is_read_without_verification() -> None:
    assert expiry(signed(now=NOW, lifetime=7.0)) == NOW + 7.0


@pytest.mark.parametrize(
    "claims", ["{}", "[]", "x", '{"exp": "x"}', '{"exp": 1e999}', '{"exp": NaN}', "\xff"]
)
def test_unreadable_expiry_is_zero(claims: str) -> None:
    payload = base64.urlsafe_b64encode(claims.encode("latin-1")).decode()
    assert expiry(f"a.{payload}.c") == 0.0
    assert expiry(payload) == 0.0


def test_token_file_is_read_for_each_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("\n a.b.c\n")
    assert read_token(file) == "a.b.c"
    file.write_text("d.e.f")
    assert read_token(file) == "d.e.f"


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"", "consists"), (b"hush\xff", "consists")]
)
def test_unusable_token_file_has_a_reason_without_its_content(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(TokenError, match=reason) as caught:
        read_token(file)
    assert "hush" not in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be a password"),
        (b"\nhush", "must be a password"),
        (b"\xff", "UTF-8"),
        (b"x" * 2000, "at most"),
    ],
)
def test_an_unusable_password_file_has_a_reason_without_its_content(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        read_password(file)
    assert "hush" not in str(caught.value)


def test_a_password_is_the_first_line(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes("größe 1 \r\nmore".encode())
    assert read_password(file) == "größe 1 "
