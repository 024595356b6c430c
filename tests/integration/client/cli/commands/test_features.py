"""The command `features`: lists and sets levels."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import SUPPORTED
from tests.integration.client.cli.commands.conftest import Command


def test_features_are_listed_with_their_levels(sharebroker: Command) -> None:
    listed = sharebroker("features", "list", "--json")
    assert [(row["feature"], row["lowest"], row["highest"]) for row in listed.data] == [
        (name, *levels) for name, levels in sorted(SUPPORTED.items())
    ]
    assert "share.version" in sharebroker("features", "list").out


def test_levels_are_set_or_only_checked(sharebroker: Command) -> None:
    ran = sharebroker("features", "set", "transaction.version=2")
    assert (ran.code, ran.err) == (0, "Set: transaction.version=2.\n")
    ran = sharebroker("features", "set", "share.version=0", "--dry-run")
    assert (ran.code, ran.err) == (0, "Valid: share.version=0.\n")


def test_invalid_levels_are_rejected(sharebroker: Command) -> None:
    assert sharebroker("features", "set", "share.version=high").code == 2
    failure = sharebroker("features", "set", "share.version=99").failure
    assert isinstance(failure, KafkaError)
    assert failure.code is ErrorCode.INVALID_UPDATE_VERSION
