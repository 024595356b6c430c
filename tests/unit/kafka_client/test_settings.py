"""Settings of another cluster from a file: secrets kept elsewhere, TLS, access tokens."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.client_properties import Login
from sharebroker_server.kafka_client.core.sasl import Credentials
from sharebroker_server.kafka_client.settings import LoginSource, UpstreamSettings, upstream_settings
from tests.testkit.certificates import Authority

SECRET = "s3cret-word"


def read(folder: Path, *lines: str, bootstrap: str = "b1:9092") -> UpstreamSettings:
    path = folder / "upstream.properties"
    path.write_text("\n".join(lines))
    return upstream_settings(path, bootstrap)


def jwt(name: str, lifetime: float) -> str:
    claims = json.dumps({"sub": name, "exp": time() + lifetime}).encode()
    return f"a.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c"


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


@contextmanager
def endpoint(answers: list[tuple[int, Any]], seen: list[tuple[str | None, str]]) -> Iterator[str]:
    """Serves the answers one by one as a token endpoint; collects authorization and form."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            seen.append((self.headers["Authorization"], form))
            status, content = answers.pop(0)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_token_is_requested_again_before_it_expires() -> None:
    seen: list[tuple[str | None, str]] = []
    short, long = jwt("short", -1), jwt("long", 3600)
    answers = [(200, {"access_token": each, "token_type": "Bearer"}) for each in (short, long)]
    with endpoint(answers, seen) as url:
        source = LoginSource(Login("OAUTHBEARER", "client", SECRET, url, "a b", {"x": "y"}))
        assert [(await source()).password for _ in range(3)] == [short, long, long]
        assert (await source()).extensions == {"x": "y"}
    identity = base64.b64encode(f"client:{SECRET}".encode()).decode()
    assert seen == [(f"Basic {identity}", "grant_type=client_credentials&scope=a+b")] * 2


@pytest.mark.parametrize("answer", [(401, {}), (200, []), (200, {"access_token": "not a token"}), (302, {})])
async def test_a_failed_token_request_keeps_the_secret(answer: tuple[int, Any]) -> None:
    with endpoint([answer], []) as url:
        source = LoginSource(Login("OAUTHBEARER", "client", SECRET, url))
        with pytest.raises(KafkaError, match="returned no access token") as failure:
            await source()
    assert failure.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert SECRET not in str(failure.value)


async def test_a_token_is_read_from_a_file_that_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = LoginSource(Login("OAUTHBEARER", token_url=file.as_uri()))
    for token in (jwt("first", -1), jwt("second", -1)):
        file.write_text(f"{token}\n")
        assert (await source()).password == token


def test_a_token_endpoint_without_tls_is_rejected() -> None:
    with pytest.raises(KafkaError, match=r"endpoint\.url: expected https") as failure:
        LoginSource(Login("OAUTHBEARER", "client", SECRET, "http://issuer.example/token"))
    assert failure.value.code == ErrorCode.INVALID_CONFIG
