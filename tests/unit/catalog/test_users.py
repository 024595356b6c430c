"""Users: Kafka's rules for credentials, and the log that stores them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog import users as module
from sharebroker_server.catalog.machine import CatalogCommand, CatalogMachine, CreateTopic
from sharebroker_server.catalog.users import (
    CreateUser,
    DeleteScramCredential,
    ScramCredentialRecord,
    UpsertScramCredential,
    UserCatalog,
    change_of,
    decide_user,
)
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.live_keys import SLACK
from sharebroker_server.security.authentication.scram import ScramMechanism, matches, salted_password
from tests.testkit.sasl import credentials_of
from tests.testkit.tables import each

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = b"a salt of 20 bytes.."
UPSERT = UpsertScramCredential("alice", 1, 4096, SALT, salted_password(SHA_256, "pencil", SALT, 4096))


def changed(*commands: UpsertScramCredential | DeleteScramCredential | CreateUser) -> UserCatalog:
    users = UserCatalog()
    for command in commands:
        for record in decide_user(users, command):
            users.apply(record)
    return users


def test_the_credential_is_that_of_the_password() -> None:
    users = changed(UPSERT)
    assert matches(SHA_256, users.credentials("alice")[SHA_256], "pencil")
    assert (users.names(), len(users)) == (["alice"], 1)


def test_a_second_credential_replaces_the_first() -> None:
    users = changed(UPSERT, replace(UPSERT, iterations=5000))
    assert (users.credentials("alice")[SHA_256].iterations, len(users)) == (5000, 1)


def test_a_user_without_credentials_does_not_exist() -> None:
    users = changed(UPSERT, DeleteScramCredential("alice", 1))
    assert (users.names(), dict(users.credentials("alice")), len(users)) == ([], {}, 0)


def test_any_credential_stays_the_same_while_users_are_added() -> None:
    users = changed(UPSERT, replace(UPSERT, user="aaron", iterations=5000))
    found = users.any_credential(SHA_256)
    assert found is not None
    assert found.iterations == 4096
    assert users.any_credential(ScramMechanism.SCRAM_SHA_512) is None


@each(
    "command, code, message",
    [
        (replace(UPSERT, user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (replace(UPSERT, user="a\0"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "SASLprep"),
        (replace(UPSERT, mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (replace(UPSERT, iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (replace(UPSERT, iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (replace(UPSERT, salt=b"short"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "12 to 256 bytes"),
        (replace(UPSERT, salt=b"s" * 257), ErrorCode.UNACCEPTABLE_CREDENTIAL, "12 to 256 bytes"),
        (replace(UPSERT, salted_password=b"k"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "32 bytes"),
        (DeleteScramCredential("alice", 2), ErrorCode.RESOURCE_NOT_FOUND, "does not exist"),
        (DeleteScramCredential("bob", 1), ErrorCode.RESOURCE_NOT_FOUND, "does not exist"),
        (DeleteScramCredential("", 1), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (DeleteScramCredential("alice", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    ],
)
def test_invalid_changes_are_rejected(
    command: UpsertScramCredential | DeleteScramCredential, code: ErrorCode, message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        decide_user(changed(UPSERT), command)
    assert caught.value.code is code


def test_credentials_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CREDENTIALS", 1)
    users = changed(UPSERT)
    assert decide_user(users, replace(UPSERT, iterations=5000))
    for command in (replace(UPSERT, user="bob"), CreateUser("bob", credentials_of("pen"))):
        with pytest.raises(KafkaError) as caught:
            decide_user(users, command)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_the_first_user_is_created_once_as_a_super_user() -> None:
    create = CreateUser("bob", credentials_of("pen"))
    users = changed(UPSERT, create)
    assert (users.is_super_user("bob"), users.is_super_user("alice")) == (True, False)
    assert len(users.credentials("bob")) == 2
    assert decide_user(users, CreateUser("bob", credentials_of("other"))) == ()


def test_an_existing_user_becomes_a_super_user_and_keeps_its_password() -> None:
    users = changed(UPSERT, CreateUser("alice", credentials_of("other")))
    assert users.is_super_user("alice")
    assert list(users.credentials("alice")) == [SHA_256]
    assert matches(SHA_256, users.credentials("alice")[SHA_256], "pencil")


def test_a_super_user_stays_one_until_the_user_is_deleted() -> None:
    users = changed(CreateUser("alice", credentials_of("pen")), UPSERT, DeleteScramCredential("alice", 2))
    assert (users.is_super_user("alice"), users.has_super_user()) == (True, True)
    for record in decide_user(users, DeleteScramCredential("alice", 1)):
        users.apply(record)
    assert (users.is_super_user("alice"), users.has_super_user()) == (False, False)
    for record in decide_user(users, UPSERT):
        users.apply(record)
    assert not users.is_super_user("alice")


def test_texts_of_commands_and_records_contain_no_secret() -> None:
    (record,) = decide_user(UserCatalog(), UPSERT)
    assert isinstance(record, ScramCredentialRecord)
    text = f"{UPSERT} {record}"
    secrets = (
        UPSERT.salt,
        UPSERT.salted_password,
        record.credential.stored_key,
        record.credential.server_key,
    )
    assert not [secret for secret in secrets if repr(secret)[2:-1] in text]


def test_credentials_survive_the_trimming_of_the_log() -> None:
    machine = CatalogMachine(BrokerConfig.parse(()))
    position = 0

    def run(command: CatalogCommand) -> None:
        nonlocal position
        for record in machine.decide(command, 0.0).records:
            position += 1
            machine.apply(record, position)

    run(UPSERT)
    run(CreateUser("carol", credentials_of("pen")))
    run(CreateTopic("t", "T1"))
    for number in range(SLACK + 10):
        run(replace(UPSERT, user="bob", iterations=4096 + number))
    assert machine.trim_before() > 1
    assert machine.catalog.users.names() == ["alice", "bob", "carol"]
    assert len(machine.catalog.users) == 4
    assert [name for name in ("alice", "bob", "carol") if machine.catalog.users.is_super_user(name)] == [
        "carol"
    ]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (UPSERT, "set SCRAM-SHA-256"),
        (DeleteScramCredential("alice", 2), "deleted SCRAM-SHA-512"),
        (CreateUser("alice", {}), "created"),
    ],
)
def test_a_change_is_described_without_secrets(
    command: UpsertScramCredential | DeleteScramCredential | CreateUser, text: str
) -> None:
    assert change_of(command) == text
