"""Access tokens from files and endpoints, and when they are replaced."""

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

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.client_properties import LoginProperties
from sharebroker_server.kafka_client.login import LoginSource

SECRET = "s3cret-word"


def jwt(name: str, lifetime: float) -> str:
    claims = json.dumps({"sub": name, "exp": time() + lifetime}).encode()
    return f"a.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c"


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
        source = LoginSource(LoginProperties("OAUTHBEARER", "client", SECRET, url, "a b", {"x": "y"}))
        assert [(await source()).password for _ in range(3)] == [short, long, long]
        assert (await source()).extensions == {"x": "y"}
    identity = base64.b64encode(f"client:{SECRET}".encode()).decode()
    assert seen == [(f"Basic {identity}", "grant_type=client_credentials&scope=a+b")] * 2


@pytest.mark.parametrize("answer", [(401, {}), (200, []), (200, {"access_token": "not a token"}), (302, {})])
async def test_a_failed_token_request_keeps_the_secret(answer: tuple[int, Any]) -> None:
    with endpoint([answer], []) as url:
        source = LoginSource(LoginProperties("OAUTHBEARER", "client", SECRET, url))
        with pytest.raises(KafkaError, match="returned no access token") as failure:
            await source()
    assert failure.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert SECRET not in str(failure.value)


async def test_a_token_is_read_from_a_file_that_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = LoginSource(LoginProperties("OAUTHBEARER", token_url=file.as_uri()))
    for token in (jwt("first", -1), jwt("second", -1)):
        file.write_text(f"{token}\n")
        assert (await source()).password == token


def test_a_token_endpoint_without_tls_is_rejected() -> None:
    with pytest.raises(KafkaError, match=r"endpoint\.url: expected https") as failure:
        LoginSource(LoginProperties("OAUTHBEARER", "client", SECRET, "http://issuer.example/token"))
    assert failure.value.code == ErrorCode.INVALID_CONFIG
