"""Rules that turn subjects of certificates into names, with the vectors of Kafka's `SslPrincipalMapper`."""

from __future__ import annotations

import contextlib
import ssl

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.authentication import principal_mapping
from sharebroker_server.security.authentication.principal_mapping import PrincipalMapping, parse_rules
from sharebroker_server.security.principal import Principal
from tests.testkit.certificates import certificate_for
from tests.testkit.tables import each


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ],
)
def test_valid_rules_are_accepted(rules: str) -> None:
    assert parse_rules(rules)


@each(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "DEFAULT DEFAULT",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:(/$1/",
        "RULE:\\p{L}/x/",
        "RULE:CN=.*/$1/",
        "RULE:CN=(.*)/$/",
        "RULE:CN=(.*)/${name}/",
    ],
)
def test_invalid_rules_are_rejected(rules: str) -> None:
    with pytest.raises(KafkaError) as caught:
        parse_rules(f"DEFAULT,{rules}")
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert "ssl.principal.mapping.rules" in caught.value.message


KAFKAS = PrincipalMapping.parse(
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_applies_names_the_subject(subject: str, name: str) -> None:
    assert KAFKAS.name(subject) == name


@each(
    "rules, split",
    [
        ("", []),
        ("DEFAULT", ["DEFAULT"]),
        ("RULE://", ["RULE://"]),
        ("RULE:/.*/L", ["RULE:/.*/L"]),
        ("  RULE:// ,  DEFAULT  ", ["RULE://", "DEFAULT"]),
        ("  RULE:   /     / ,  DEFAULT  ", ["RULE:   /     /", "DEFAULT"]),
        (
            "  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
            ["RULE:([A-Z]*)/$1/U", "RULE:([a-z]+)/$1/", "DEFAULT"],
        ),
        (",   , , ,      , , ,   ", []),
        (",,RULE://,,,DEFAULT,,", ["RULE://", "DEFAULT"]),
        ("     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,", ["RULE:   /  /U", "DEFAULT"]),
        (r"RULE:\/\\\(\)\n\t/\/\//", [r"RULE:\/\\\(\)\n\t/\/\//"]),
        (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", [r"RULE:\**\/+/*/L", r"RULE:\/*\**/**/"]),
        (
            r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,"
            r"RULE:, DEFAULT, /DEFAULT/,DEFAULT",
            [
                r"RULE:,RULE:,/,RULE:,\//U",
                "RULE:,/RULE:,/",
                "RULE:,RULE:,/L,RULE:,/L",
                "RULE:, DEFAULT, /DEFAULT/",
                "DEFAULT",
            ],
        ),
    ],
)
def test_rules_are_separated_as_kafka_separates_them(rules: str, split: list[str]) -> None:
    assert [rule.text for rule in parse_rules(rules)] == split


@each(
    "rule, subject, name",
    [
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        ("RULE:CN=(.*)/$1@$4/", "CN=a", "a@$4"),
        ("RULE:CN=(.*)/$12/", "CN=a", "a2"),
        ("RULE:CN=(.*)/$0!/", "CN=a", "CN=a!"),
        ("RULE:CN=(.*)/$01/", "CN=a", "a"),
        (r"RULE:CN=(.*)/\$1\/\\/", "CN=a", "$1/\\"),
        ("RULE:CN=(?<who>.*)/${who}/U", "CN=a", "A"),
        ("RULE:CN=(a)|CN=(b)/<$1$2>/", "CN=b", "<b>"),
        ("RULE:.*/x/", "CN=b", "xx"),  # as Java's replaceAll: the empty end is a second occurrence
        ("RULE:CN=b/x/", "CN=bb", None),
        ("RULE:N=b/x/", "CN=b", None),
    ],
)
def test_one_rule(rule: str, subject: str, name: str | None) -> None:
    assert PrincipalMapping.parse(rule).name(subject) == name


@given(st.text(alphabet=r"RULE:/\$,DFAT1(.*) "))
def test_texts_are_rules_or_invalid(text: str) -> None:
    with contextlib.suppress(KafkaError):
        assert all(rule.text in text for rule in parse_rules(text))


def test_the_principal_is_the_same_from_der_and_pem() -> None:
    mapping = PrincipalMapping.parse("RULE:CN=(.*),O=ours/$1/")
    assert not mapping.is_total
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "ours")]
    worker = certificate_for(x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, "worker")]))
    pem = ssl.DER_cert_to_PEM_cert(worker).encode()
    assert mapping.principal(worker) == mapping.principal(pem) == Principal("worker")
    assert mapping.principal(worker) is mapping.principal(worker)
    assert mapping.principal(certificate_for(x509.Name(names))) is None
    assert mapping.principal(b"-----BEGIN nothing") is None


def test_the_number_of_cached_principals_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principal_mapping, "MAX_CACHED", 1)
    mapping = PrincipalMapping.parse("DEFAULT")
    assert mapping.is_total
    first = certificate_for(x509.Name([]))
    assert mapping.principal(first) is not mapping.principal(certificate_for(x509.Name([])))
    assert mapping.principal(first) == Principal("")
