"""The text of principals is that of Kafka's ACLs."""

from __future__ import annotations

from sharebroker_server.security.principal import ANONYMOUS, Principal


def test_the_text_of_a_principal_is_type_and_name() -> None:
    assert str(Principal("alice")) == "User:alice"


def test_a_client_without_authentication_is_anonymous() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_locks_of_anonymous_clients_have_no_owner() -> None:
    assert Principal("alice").owner == "User:alice"
    assert ANONYMOUS.owner == Principal("ANONYMOUS").owner == ""
    assert Principal("ANONYMOUS", "Other").owner == "Other:ANONYMOUS"
