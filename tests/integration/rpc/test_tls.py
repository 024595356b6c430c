"""Certificate files: read again when they change; invalid files are rejected with one sentence."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from sharebroker_protocol.address import Address
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.settings import parse_tls
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.rpc.server import GrpcServer
from sharebroker_server.rpc.tls import Tls, TlsFiles
from tests.testkit.certificates import Authority

SECONDS = 30.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "first")


@pytest.fixture
def tls(authority: Authority) -> Tls:
    made = authority.issue("broker", "127.0.0.1")
    return Tls(TlsFiles(made.certificate, made.key, authority.file))


@pytest.fixture
async def grpc_port(tls: Tls) -> AsyncIterator[int]:
    server = GrpcServer(tls=tls)
    port = server.bind("127.0.0.1:0")
    await server.start()
    yield port
    await server.stop(0)


@pytest.fixture
async def plain_port(tls: Tls) -> AsyncIterator[int]:
    def served(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls.context) as server:
        yield int(server.sockets[0].getsockname()[1])


async def trusted(authority: Authority, grpc_port: int, plain_port: int) -> tuple[bool, bool]:
    """Returns whether a client that trusts an authority can connect, by gRPC and by the Kafka listener's
    socket.
    """
    credentials = grpc.ssl_channel_credentials(authority.file.read_bytes())
    async with grpc.aio.secure_channel(f"127.0.0.1:{grpc_port}", credentials) as channel:
        channel.get_state(try_to_connect=True)
        async with asyncio.timeout(SECONDS):
            while (state := channel.get_state()) not in _SETTLED:
                await channel.wait_for_state_change(state)
    context = ssl.create_default_context(cafile=str(authority.file))
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", plain_port, ssl=context)
    except ssl.SSLError:
        return state is grpc.ChannelConnectivity.READY, False
    writer.close()
    with suppress(OSError):
        async with asyncio.timeout(SECONDS):
            await writer.wait_closed()
    return state is grpc.ChannelConnectivity.READY, True


_SETTLED = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE)


async def test_certificate_is_reloaded_without_a_restart(
    authority: Authority, tls: Tls, grpc_port: int, plain_port: int, tmp_path: Path
) -> None:
    changes: list[str] = []
    tls.changed.append(lambda: changes.append("changed"))
    tls.refresh()
    assert changes == []
    assert await trusted(authority, grpc_port, plain_port) == (True, True)
    other = Authority.make(tmp_path / "second")
    made = other.issue("broker", "127.0.0.1")
    for name, path in (("broker.crt", made.certificate), ("broker.key", made.key), ("ca.crt", other.file)):
        path.replace(authority.folder / name)
    other.file.write_bytes((authority.folder / "ca.crt").read_bytes())
    tls.refresh()
    assert changes == ["changed"]
    assert await trusted(other, grpc_port, plain_port) == (True, True)


async def test_incomplete_certificate_update_changes_nothing(
    authority: Authority, tls: Tls, grpc_port: int, plain_port: int, tmp_path: Path
) -> None:
    made = Authority.make(tmp_path / "second").issue("broker", "127.0.0.1")
    made.certificate.replace(authority.folder / "broker.crt")
    tls.refresh()
    assert await trusted(authority, grpc_port, plain_port) == (True, True)


def start(certificate: Path | None, key: Path | None, ca: Path | None) -> Tls:
    """Starts a server as `serve` does."""
    files = parse_tls(certificate, key, ca, None, BrokerConfig())
    assert files is not None
    return Tls(files)


@pytest.mark.parametrize(
    ("certificate", "key", "ca", "message"),
    [
        ("broker.crt", None, None, "both --tls-cert and --tls-key"),
        (None, None, "ca.crt", "both --tls-cert and --tls-key"),
        ("absent.crt", "broker.key", None, "absent.crt: No such file"),
        ("broker.crt", "other.key", None, "the key belongs to another certificate"),
        ("broker.key", "broker.key", None, "not a certificate"),
        ("broker.crt", "broker.key", "broker.key", "no certificate"),
    ],
)
def test_unusable_tls_files_are_named(
    authority: Authority, certificate: str | None, key: str | None, ca: str | None, message: str
) -> None:
    for name in ("broker", "other"):
        authority.issue(name, "127.0.0.1")
    certificate_file, key_file, ca_file = (
        None if name is None else authority.folder / name for name in (certificate, key, ca)
    )
    with pytest.raises(KafkaError, match=message) as caught:
        start(certificate_file, key_file, ca_file)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_client_certificates_require_an_authority() -> None:
    config = BrokerConfig.parse(["ssl.client.auth=required"])
    with pytest.raises(KafkaError, match="needs --tls-ca: the authority"):
        parse_tls(Path("broker.crt"), Path("broker.key"), None, None, config)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tls://broker", "must be tls://HOST:PORT"),
        ("tls://broker:9090/path", "must be tls://HOST:PORT"),
        ("tls://broker:9090?pin=1", "not pin"),
        ("tls://broker:9090?cert=a", "needs both cert and key"),
        ("tls://broker:9090?ca=/absent", "/absent, which cannot be read: No such file"),
    ],
)
def test_invalid_addresses_are_rejected(address: str, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        Address.parse(address)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
