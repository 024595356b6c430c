"""Where the secret of a cluster comes from: a file, or a key in Redis that the first process creates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.security.cluster_token import RENEWAL, SETTLING, TokenVerdict
from sharebroker_server.security.credentials import (
    TOKEN_KEY,
    ClusterCredentials,
    SecretFile,
    SecretsUnavailable,
    StoredSecret,
)
from tests.testkit.waiting import eventually

KEY = "sharebroker:cluster-secret"
FIRST, SECOND = b"the first secret of all", b"the second secret of all"


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def credentials(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterCredentials]:
    monkeypatch.setattr("sharebroker_server.security.credentials.INTERVAL", 0.01)
    made = ClusterCredentials(clock)
    yield made
    await made.stop()


def token_of(credentials: ClusterCredentials) -> str:
    """Returns the token that the metadata of a call contains."""
    [(key, token)] = credentials.metadata()
    assert key == TOKEN_KEY
    return token


async def test_processes_of_one_redis_share_a_random_secret(redis_link: RedisLink) -> None:
    source = StoredSecret(redis_link, KEY)
    read = await asyncio.gather(*(source.read(()) for _ in range(20)))
    assert len(set(read)) == 1
    [secret] = read[0]
    assert len(secret) == 64
    assert await redis_link.call("GET", KEY, timeout=5) == secret


async def test_a_secret_that_redis_lost_is_stored_again(redis_link: RedisLink) -> None:
    source = StoredSecret(redis_link, KEY)
    before = await source.read(())
    await redis_link.call("DEL", KEY, timeout=5)
    assert await source.read(before) == before
    assert await source.read(()) == before


async def test_an_unusable_key_is_reported_without_its_value(redis_link: RedisLink) -> None:
    await redis_link.call("SET", KEY, "hush", timeout=5)
    with pytest.raises(SecretsUnavailable, match="fewer than 16 bytes") as error:
        await StoredSecret(redis_link, KEY).read(())
    assert "hush" not in str(error.value)
    await redis_link.call("DEL", KEY, timeout=5)
    await redis_link.call("HSET", KEY, "a", "b", timeout=5)
    with pytest.raises(SecretsUnavailable, match="WRONGTYPE"):
        await StoredSecret(redis_link, KEY).read(())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"", "contains no secret"),
        (b"hush", "fewer than 16 bytes"),
        (b"hush" * 20_000, "larger than 65536 bytes"),
    ],
)
async def test_an_unusable_file_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SecretsUnavailable, match=reason) as error:
        await SecretFile(file).read(())
    assert str(file) in str(error.value)
    assert "hush" not in str(error.value)


async def test_without_secrets_every_token_is_rejected(credentials: ClusterCredentials) -> None:
    assert credentials.metadata() == ()
    assert credentials.verify("anything") is TokenVerdict.MISSING


async def test_a_token_is_renewed_before_it_expires(
    credentials: ClusterCredentials, clock: Clock, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(FIRST)
    await credentials.start(SecretFile(file), "7/1")
    first = token_of(credentials)
    clock.now += RENEWAL - 1
    assert token_of(credentials) == first
    clock.now += 2
    assert token_of(credentials) != first
    assert credentials.verify(token_of(credentials)) is TokenVerdict.VALID


async def test_a_changed_file_is_used_without_a_restart(
    credentials: ClusterCredentials, clock: Clock, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(FIRST)
    with capture_logs() as log:
        await credentials.start(SecretFile(file), "7/1")
        before = token_of(credentials)
        file.write_bytes(SECOND)
        await eventually(lambda: events(log) == ["cluster secret changed"])
        assert token_of(credentials) == before, "peers do not accept the new secret yet"
        clock.now += SETTLING
        await eventually(lambda: token_of(credentials) != before)
        assert credentials.verify(token_of(credentials)) is TokenVerdict.VALID
        assert credentials.verify(before) is TokenVerdict.VALID
    assert FIRST.decode() not in str(log)
    assert SECOND.decode() not in str(log)


async def test_an_unusable_change_keeps_the_current_secret(
    credentials: ClusterCredentials, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_bytes(FIRST)
    with capture_logs() as log:
        await credentials.start(SecretFile(file), "7/1")
        file.unlink()
        await eventually(lambda: log)
        file.write_bytes(b"short")
        await eventually(lambda: len(log) == 2)
        assert credentials.verify(token_of(credentials)) is TokenVerdict.VALID
    assert set(events(log)) == {"cluster secret reload failed; keeping the current one"}
    assert "short" not in str(log)


def events(log: Sequence[object]) -> list[str]:
    """Returns the events of log lines."""
    return [line["event"] for line in log if isinstance(line, dict)]
