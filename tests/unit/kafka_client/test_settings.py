"""Settings of another cluster from a file: secrets kept elsewhere, TLS, access tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.sasl import Credentials
from sharebroker_server.kafka_client.settings import UpstreamSettings, upstream_settings

SECRET = "s3cret-word"


def read(folder: Path, *lines: str, bootstrap: str = "b1:9092") -> UpstreamSettings:
    path = folder / "upstream.properties"
    path.write_text("\n".join(lines))
    return upstream_settings(path, bootstrap)


def test_addresses_alone_are_enough() -> None:
    settings = upstream_settings(None, "b1:9092,[::1]:9093")
    assert settings.addresses == "b1:9092,[::1]:9093"
    assert settings.connection.tls is None
    assert settings.connection.login is None


async def test_secrets_are_read_from_variables_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_USER", "me")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "word").write_text(f"{SECRET}\n")
    (tmp_path / "more.properties").write_text("extra = -1")
    settings = read(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        "sasl.username=${env:UPSTREAM_USER}",
        f"sasl.password=${{dir:{tmp_path}/secrets:word}}${{file:{tmp_path}/more.properties:extra}}",
    )
    assert settings.connection.login is not None
    assert await settings.connection.login() == Credentials("PLAIN", "me", f"{SECRET}-1")
    public = settings.public()
    assert public["security.protocol"] == "SASL_PLAINTEXT"
    assert public["sasl.username"] == "me"
    assert SECRET not in f"{settings!r} {public}"


@pytest.mark.parametrize(
    "value", ["${env:ABSENT_VARIABLE}", "${dir:/absent:word}", "${file:/absent:key}", "${file:FOLDER/a:key}"]
)
def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path, value: str) -> None:
    (tmp_path / "a").write_text("b=c")
    with pytest.raises(KafkaError, match=r"client.id: \$\{.* cannot be read: ") as failure:
        read(tmp_path, f"client.id={value.replace('FOLDER', str(tmp_path))}")
    assert failure.value.code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("content", [b"\xff", b"a" * (1 << 20) + b"b", None])
def test_an_unreadable_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "upstream.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KafkaError, match=f"--upstream-config {path}: ") as failure:
        upstream_settings(path)
    assert failure.value.code == ErrorCode.INVALID_CONFIG
