"""A release with the chart's defaults: users, ACLs and TLS, for clients from within and from outside."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Final

import pytest

from sharebroker import Producer
from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.k8s.keys import NAMESPACE
from tests.k8s.release import NAME, Release

_DEFAULTS: Final = (
    "--set=tls.generate=true",
    "--set=auth.enabled=true",
    "--set=kafka.external.type=",
    "--set=redis.builtIn.persistence.enabled=false",
)
_PASSWORD: Final = "the password of alice"
_TOPIC: Final = "orders"


def protected(release: Release) -> str:
    """Installs, tests, uses, upgrades and uninstalls it. Raises Failed, AssertionError."""
    kubectl = release.node.kubectl
    release.install(*_DEFAULTS)
    release.test()
    folder = release.node.folder / "protected"
    folder.mkdir()
    before = _secrets(release)
    (folder / "ca.crt").write_bytes(before["ca.crt"])
    _give_permissions(release, folder)
    with Producer(_address(release, folder, "alice", _PASSWORD)) as producer:
        producer.send(_TOPIC, b"1").result()
        with pytest.raises(KafkaError) as denied:
            producer.send("another", b"1").result()
    assert denied.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    release.change('roles.gateway.podAnnotations.upgraded="yes"')
    assert _secrets(release) == before, "an upgrade replaced the generated secrets"
    release.uninstall()
    kubectl("delete", "secret", f"{NAME}-admin", f"{NAME}-tls")
    return "installed, tested, used as two users, upgraded with the same secrets, uninstalled"


def _secrets(release: Release) -> dict[str, bytes]:
    """Returns the generated values."""
    found: dict[str, bytes] = {}
    for name in (f"{NAME}-admin", f"{NAME}-tls"):
        (secret,) = release.node.kubectl.get("secret", name)
        found |= {key: b64decode(value) for key, value in secret["data"].items()}
    return found


def _address(release: Release, folder: Path, user: str, password: str) -> str:
    """Returns the address of the gRPC listener for a user."""
    (folder / user).write_text(password)
    query = f"ca={folder}/ca.crt&user={user}&password_file={folder}/{user}&name={NAME}.{NAMESPACE}.svc"
    return f"tls://{release.address()}?{query}"


def _give_permissions(release: Release, folder: Path) -> None:
    """Creates a topic, a user and its ACL, as in the notes of the chart."""
    kubectl = release.node.kubectl
    coordinator = ("exec", "-i", f"deployment/{NAME}-group-coordinator", "--", "sharebroker")
    kubectl(*coordinator, "topics", "create", _TOPIC)
    kubectl(*coordinator, "topics", "create", "another")
    kubectl(*coordinator, "users", "add", "alice", "--password-file", "/dev/stdin", given=f"{_PASSWORD}\n")
    kubectl(*coordinator, "acls", "add", "alice", "--operation", "write", "--topic", _TOPIC)
