"""Passwords are verified outside the event loop, cached while their credential is current, and bounded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication import passwords
from sharebroker_server.security.authentication.passwords import (
    CACHED_FOR,
    MAX_WAITING,
    THREADS,
    PasswordVerifier,
)
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism, matches
from tests.testkit.sasl import credentials_of
from tests.testkit.waiting import eventually

MECHANISM = ScramMechanism.SCRAM_SHA_256


class Counting:
    """A verifier with one user; counts derivations, and holds them back while `gate` is cleared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.credential = credentials_of("pencil")[MECHANISM]
        self.derived = 0
        self.time = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.verifier = PasswordVerifier(lambda _: (MECHANISM, self.credential), lambda: self.time)

        def counted(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
            self.derived += 1
            assert threading.current_thread() is not threading.main_thread()
            assert self.gate.wait(10)
            return matches(mechanism, credential, password)

        monkeypatch.setattr(passwords, "matches", counted)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    made = Counting(monkeypatch)
    yield made
    made.gate.set()
    made.verifier.close()


async def test_a_correct_password_is_derived_once(counting: Counting) -> None:
    assert [await counting.verifier.verify("alice", "pencil") for _ in range(3)] == [True] * 3
    assert counting.derived == 1


async def test_a_wrong_password_is_derived_each_time(counting: Counting) -> None:
    assert [await counting.verifier.verify("alice", "Pencil") for _ in range(3)] == [False] * 3
    assert counting.derived == 3


@pytest.mark.parametrize(("derivation", "delay"), [(0.002, 0.048), (0.012, 0.038), (0.06, 0.04)])
async def test_a_wrong_password_takes_as_long_with_any_credential(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, derivation: float, delay: float
) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    def derived(*_: object) -> bool:
        counting.time += derivation
        return False

    monkeypatch.setattr(passwords, "matches", derived)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert not await counting.verifier.verify("alice", "Pencil")
    assert delays == [pytest.approx(delay)]


async def test_another_name_is_derived_again(counting: Counting) -> None:
    await counting.verifier.verify("alice", "pencil")
    await counting.verifier.verify("bob", "pencil")
    assert counting.derived == 2


async def test_a_changed_credential_is_effective_at_once(counting: Counting) -> None:
    assert await counting.verifier.verify("alice", "pencil")
    counting.credential = credentials_of("pen")[MECHANISM]
    assert not await counting.verifier.verify("alice", "pencil")


async def test_a_cached_password_expires(counting: Counting) -> None:
    await counting.verifier.verify("alice", "pencil")
    counting.time += CACHED_FOR + 1
    assert await counting.verifier.verify("alice", "pencil")
    assert counting.derived == 2


async def test_the_cache_is_bounded(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MAX_CACHED", 2)
    for name in ("a", "b", "c", "c", "b", "a"):
        await counting.verifier.verify(name, "pencil")
    assert counting.derived == 4


async def test_verifications_beyond_the_bound_are_rejected(counting: Counting) -> None:
    counting.gate.clear()
    tasks = [
        asyncio.create_task(counting.verifier.verify("alice", str(number))) for number in range(MAX_WAITING)
    ]
    await eventually(lambda: counting.derived == THREADS)
    with pytest.raises(KafkaError) as caught:
        await counting.verifier.verify("alice", "pencil")
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    counting.verifier.close()
    counting.gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
