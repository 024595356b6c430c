"""Certificates and authorities from files or texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.certificates import Authority
from tests.unit.kafka_client.test_settings import SECRET, read


def test_certificates_are_files_or_texts(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    client = authority.issue("client", "client")
    files = read(
        tmp_path,
        "security.protocol=SSL",
        f"ssl.ca.location={authority.file}",
        f"ssl.certificate.location={client.certificate}",
        f"ssl.key.location={client.key}",
    )
    stores = read(
        tmp_path,
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={authority.file}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={client.both}",
        "ssl.endpoint.identification.algorithm=",
    )
    one_line = authority.file.read_text().strip().replace("\n", "\\n")
    texts = read(tmp_path, "security.protocol=SSL", f"ssl.truststore.certificates={one_line}")
    for settings, checks in ((files, True), (stores, False), (texts, True)):
        context = settings.connection.tls
        assert context is not None
        assert context.check_hostname is checks
        assert len(context.get_ca_certs()) == 1


def test_a_key_with_a_password_needs_it(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    client = authority.issue("client", "client")
    key = serialization.load_pem_private_key(client.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(SECRET.encode())
    client.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    lines = [
        "security.protocol=SSL",
        f"ssl.ca.location={authority.file}",
        f"ssl.certificate.location={client.certificate}",
        f"ssl.key.location={client.key}",
    ]
    assert read(tmp_path, *lines, f"ssl.key.password={SECRET}").connection.tls is not None
    for words in ([], ["ssl.key.password=other"]):
        with pytest.raises(KafkaError, match=r"ssl\.keystore: the PEM is invalid") as failure:
            read(tmp_path, *lines, *words)
        assert failure.value.code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_unusable_authority_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(KafkaError, match=r"ssl\.truststore: ") as failure:
        read(tmp_path, "security.protocol=SSL", f"ssl.ca.location={path}")
    assert failure.value.code == ErrorCode.INVALID_CONFIG
