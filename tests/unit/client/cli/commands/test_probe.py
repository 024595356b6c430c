"""The health probe against an HTTP server in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sharebroker.cli.commands.probe import listed, probe
from tests.testkit.servers import free_port


class Health(BaseHTTPRequestHandler):
    """Ready with status 503 and a reason; everything else is fine."""

    def do_GET(self) -> None:
        ready = self.path != "/readyz"
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b"ok\n" if ready else b"Redis is not reached\n")

    def log_request(self, *_: object) -> None:
        """Keeps the output of the tests clean."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("question", ["live", "started"])
def test_success_is_silent_and_code_0(question: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe([question, "--url", url]) == 0
    assert capsys.readouterr() == ("", "")


def test_failure_prints_the_servers_reason(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(["--url", url, "ready"]) == 1
    assert capsys.readouterr().err == "sharebroker probe: not ready: Redis is not reached\n"


def test_absent_server_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(["live", "--url", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "not live: no response from 127.0.0.1:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["well"], ["live", "ready"], ["live", "--url"], ["live", "--url", "ftp://here"]]
)
def test_wrong_usage_is_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(arguments) == 2
    assert capsys.readouterr().err.startswith("Usage: sharebroker probe")


def test_help_is_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(["live", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: sharebroker probe")


def test_command_exits_with_the_code_of_the_probe(url: str) -> None:
    with pytest.raises(SystemExit) as ended:
        listed("ready", url)
    assert ended.value.code == 1
