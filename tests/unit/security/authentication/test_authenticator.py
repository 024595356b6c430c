"""Both listeners accept the users of the catalog; other names look like users."""

from __future__ import annotations

import pytest

from sharebroker_server.security.authentication.authenticator import Authenticator
from sharebroker_server.security.authentication.sasl import MECHANISMS, Challenge, Success
from sharebroker_server.security.authentication.scram import PLAIN, ScramMechanism
from tests.testkit.sasl import MemoryUsers, ScramClient


@pytest.fixture
def authenticator() -> Authenticator:
    made = Authenticator(MECHANISMS, tls=True)
    made.users = MemoryUsers({"alice": "pencil"})
    return made


def salt(authenticator: Authenticator, name: str) -> bytes:
    exchange = authenticator.exchange()
    exchange.start("SCRAM-SHA-256")
    outcome = exchange.step(ScramClient("SCRAM-SHA-256", name, "any").first())
    assert isinstance(outcome, Challenge)
    return outcome.token.split(b",")[1]


def test_plain_needs_tls() -> None:
    assert PLAIN in Authenticator(MECHANISMS, tls=True).mechanisms
    assert Authenticator(MECHANISMS, tls=False).mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")


def test_a_user_of_the_catalog_is_authenticated(authenticator: Authenticator) -> None:
    exchange, client = authenticator.exchange(), ScramClient("SCRAM-SHA-512", "alice", "pencil")
    exchange.start("SCRAM-SHA-512")
    first = exchange.step(client.first())
    assert isinstance(first, Challenge)
    assert isinstance(exchange.step(client.final(first.token)), Success)


def test_an_unknown_user_has_the_same_salt_each_time(authenticator: Authenticator) -> None:
    assert (
        salt(authenticator, "stranger") == salt(authenticator, "stranger") != salt(authenticator, "somebody")
    )


@pytest.mark.parametrize("kept", [list(ScramMechanism), [ScramMechanism.SCRAM_SHA_256]])
async def test_password_matches_any_credential_of_the_user(
    authenticator: Authenticator, kept: list[ScramMechanism]
) -> None:
    users = MemoryUsers({"alice": "pencil"})
    users.by_name["alice"] = {each: users.by_name["alice"][each] for each in kept}
    authenticator.users = users
    logins = [("alice", "pencil"), ("alice", "pen"), ("stranger", "pencil")]
    assert [await authenticator.passwords.verify(*login) for login in logins] == [True, False, False]
    authenticator.passwords.close()


async def test_before_the_catalog_is_read_no_login_succeeds() -> None:
    authenticator = Authenticator(MECHANISMS, tls=True)
    assert not await authenticator.passwords.verify("alice", "pencil")
    assert salt(authenticator, "alice")
    authenticator.passwords.close()
