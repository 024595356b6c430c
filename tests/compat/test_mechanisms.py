"""Unmodified clients with each SASL mechanism over TLS; they manage ACLs, quotas and users."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sharebroker import Admin
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.compat.test_franz_go import PROGRAM
from tests.compat.test_franz_go import pytestmark as needs_franz_go
from tests.support.client import unique
from tests.support.kafka_tools import Ran, as_properties, needs_kafka, run_program
from tests.testkit.brokers import one_process
from tests.testkit.issuer import AUDIENCE, ISSUER, Issuer, jwk, jwk_set, token
from tests.testkit.secured import ADMIN, PASSWORD, Secured, secured

SECONDS = 30.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOUR = "SecurityTour"
EXPECTED = """\
matching: true
group: true
deleted: 2
remaining: 0
quota: {producer_byte_rate=1024.0}
quotas: 0
user: true
users: false
"""

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
pytestmark = pytest.mark.xdist_group("mechanisms")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Issuer(jwk_set(jwk("RS256", "1"))).serving() as issuer:
        options = (
            f"--set=sasl.enabled.mechanisms={','.join(MECHANISMS)}",
            f"--set=sasl.oauthbearer.jwks.endpoint.url={issuer.url}",
            f"--set=sasl.oauthbearer.expected.issuer={ISSUER}",
            f"--set=sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"--set=authorizer.class.name={STANDARD_AUTHORIZER}",
        )
        with secured(one_process, tmp_path_factory.mktemp("mechanisms"), *options) as made:
            yield made


def secret_of(mechanism: str, valid: bool = True) -> str:
    """Returns the password of the first user, or a token for it; both make a super user."""
    if mechanism == "OAUTHBEARER":
        return token(ADMIN, scope="any", aud=AUDIENCE if valid else "elsewhere")
    return PASSWORD if valid else "wrong"


def tour(place: Secured, folder: Path, mechanism: str, patch: pytest.MonkeyPatch, *, valid: bool) -> Ran:
    """Runs the tour of Kafka's Admin."""
    secret = secret_of(mechanism, valid)
    properties = place.java(mechanism, password=secret)
    if mechanism == "OAUTHBEARER":
        file = folder / "token"
        file.write_text(secret)
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        options = f"{allowed}.urls={file.as_uri()} {allowed}.files={file}"
        patch.setenv("JAVA_TOOL_OPTIONS", options)
        oauth = "org.apache.kafka.common.security.oauthbearer."
        properties |= {
            "sasl.jaas.config": f"{oauth}OAuthBearerLoginModule required ;",
            "sasl.login.callback.handler.class": f"{oauth}OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        }
    written = folder / "client.properties"
    written.write_text(as_properties(properties | {"bootstrap.servers": place.cluster.kafka}))
    return run_program(TOUR, str(written), unique("tour")).checked()


@needs_kafka
@each_mechanism
def test_java_admin_manages_acls_quotas_and_users(
    place: Secured, tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tour(place, tmp_path, mechanism, monkeypatch, valid=True).out == EXPECTED


@needs_kafka
@each_mechanism
def test_java_admin_with_a_wrong_secret_is_rejected(
    place: Secured, tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejected = tour(place, tmp_path, mechanism, monkeypatch, valid=False)
    assert rejected.out == "failed: SaslAuthenticationException\n"


@needs_franz_go
@each_mechanism
def test_franz_go_authenticates(place: Secured, tmp_path: Path, mechanism: str) -> None:
    topic, secret = unique("topic"), tmp_path / "secret"
    with Admin(place.address()) as admin:
        admin.create_topic(topic, 1)

    def run(valid: bool) -> subprocess.CompletedProcess[str]:
        secret.write_text(secret_of(mechanism, valid))
        command = [str(PROGRAM), place.cluster.kafka, "login", str(place.authority.file), mechanism, ADMIN]
        command += [str(secret), topic]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    done = run(valid=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 0\n", "")
    rejected = run(valid=False)
    assert rejected.returncode == 1
    # franz-go does not read the challenge with which a server rejects a token (RFC 7628).
    oauth = mechanism == "OAUTHBEARER"
    assert ("unexpected data in oauth response" if oauth else "SASL_AUTHENTICATION_FAILED") in rejected.stderr


@each_mechanism
def test_confluent_kafka_manages_acls_and_users(place: Secured, mechanism: str) -> None:
    admin = AdminClient(confluent(place, mechanism))
    admin.poll(0)
    name = unique("orders")
    entry = (
        name,
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    binding, selection = AclBinding(ResourceType.TOPIC, *entry), AclBindingFilter(ResourceType.TOPIC, *entry)
    for future in admin.create_acls([binding]).values():
        future.result(SECONDS)
    assert admin.describe_acls(selection).result(SECONDS) == [binding]
    (deleted,) = admin.delete_acls([selection]).values()
    assert deleted.result(SECONDS) == [binding]
    assert admin.describe_acls(selection).result(SECONDS) == []
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion(name, credential, b"a secret")
    for changed in admin.alter_user_scram_credentials([upsertion]).values():
        changed.result(SECONDS)
    described: Any = admin.describe_user_scram_credentials([name])
    (info,) = described[name].result(SECONDS).scram_credential_infos
    assert (info.mechanism, info.iterations) == (credential.mechanism, 4096)


@each_mechanism
def test_confluent_kafka_with_a_wrong_secret_is_rejected(place: Secured, mechanism: str) -> None:
    errors: list[str] = []
    settings = confluent(place, mechanism, valid=False)
    admin = AdminClient(settings | {"error_cb": lambda error: errors.append(error.str())})
    admin.poll(0)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3.0)
    admin.poll(0)
    assert any("uthentication failed" in error for error in errors), errors


def confluent(place: Secured, mechanism: str, *, valid: bool = True) -> dict[str, Any]:
    """Returns librdkafka's settings."""
    settings: dict[str, Any] = place.librdkafka(mechanism, password=secret_of(mechanism, valid))
    if mechanism == "OAUTHBEARER":
        del settings["sasl.username"], settings["sasl.password"]
        settings["oauth_cb"] = lambda _: (secret_of(mechanism, valid), 4_000_000_000.0)
    return settings
