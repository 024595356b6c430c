"""The comparison of a server with users and ACLs to one without: its servers, its users and its table."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from sharebroker_server.config.broker import BrokerConfig
from tests.perf.compare import LABELS, Comparison, Pair, table
from tests.perf.rights import ACLS, GRPC, HEADS, KAFKA
from tests.perf.users import ADMIN, MECHANISM, PORTION, USER, client_config, of_others, options
from tests.testkit.certificates import Authority


@pytest.mark.parametrize("tls", [False, True])
def test_both_servers_have_the_same_listeners(tmp_path: Path, tls: bool) -> None:
    authority = Authority.make(tmp_path / "authority")
    without, secured = (options(tmp_path, authority, tls=tls, secured=each) for each in (False, True))
    assert secured[: len(without)] == without
    assert ("--tls-cert" in without) is tls


def test_the_secured_server_has_an_authorizer_and_a_first_user(tmp_path: Path) -> None:
    words = options(tmp_path, Authority.make(tmp_path / "authority"), tls=False, secured=True)
    settings = dict(word.split("=", 1) for option, word in pairwise(words) if option == "--set")
    assert BrokerConfig.of(settings).authorizer_class_name
    assert words[words.index("--admin-user") + 1] == ADMIN
    assert (tmp_path / USER).read_text()


def test_clients_of_kafka_are_no_super_user(tmp_path: Path) -> None:
    text = client_config(tmp_path).read_text()
    assert f'username="{USER}"' in text
    assert MECHANISM in text


def test_acls_of_others_differ_and_never_name_the_user() -> None:
    made = list(of_others(PORTION))
    assert len({(acl.restype, acl.name, acl.principal) for acl in made}) == PORTION <= ACLS
    assert f"User:{USER}" not in {acl.principal for acl in made}


def test_every_program_has_a_row_with_both_sides() -> None:
    rows = [Comparison.of(name, "rate", [Pair(100.0, 90.0)]) for name in (*GRPC, *KAFKA)]
    head, _, *lines = table(rows, HEADS).splitlines()
    assert all(name in head for name in HEADS)
    assert [line.split(",")[0].removeprefix("| ") for line in lines] == [
        LABELS[name].split(",")[0] for name in (*GRPC, *KAFKA)
    ]
