"""TLS of our ports and of calls to other processes: one certificate, read again when its files change."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from sharebroker_protocol.address import over_tls
from sharebroker_protocol.errors import ErrorCode, KafkaError

_log = structlog.get_logger()

EVERY: Final = 10.0
"""Seconds between two looks at the files."""

Options = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: a certificate with its chain, its key, and authorities (the system's, if None).

    `server_name` is what certificates of other processes are for, where it is not the address they have.
    """

    certificate: Path
    key: Path
    authorities: Path | None = None
    clients_need_one: bool = False
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class _Pems:
    certificate: bytes
    key: bytes
    authorities: bytes | None


class Tls:
    """What gRPC and Kafka's door need. `watch` keeps it current; `changed` are told after a change."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises KafkaError INVALID_CONFIG where a file cannot be used, and says which."""
        self._files = files
        self._pems = _read(files)
        self._context = _context(files)
        self._seen = _marks(files)
        self._configuration = self._make_configuration()
        self.changed: list[Callable[[], None]] = []

    @property
    def context(self) -> ssl.SSLContext:
        """For a server of asyncio's; it stays the same when the files change."""
        return self._context

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a server of gRPC's."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration, lambda: self._configuration, self._files.clients_need_one
        )

    def channel(self, address: str, options: Options) -> grpc.aio.Channel:
        """A channel to another process of the cluster, with our certificate."""
        credentials = grpc.ssl_channel_credentials(
            self._pems.authorities, self._pems.key, self._pems.certificate
        )
        named = over_tls(options, self._files.server_name)
        return grpc.aio.secure_channel(address, credentials, options=named)

    async def watch(self) -> None:
        """Until it is cancelled: read the files again when they have changed; what cannot be used is left."""
        while True:
            await asyncio.sleep(EVERY)
            self.refresh()

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        marks = _marks(self._files)
        if marks == self._seen:
            return
        self._seen = marks
        try:
            pems = _read(self._files)
            _load(self._context, self._files)
        except KafkaError as failure:
            _log.error("the new certificate cannot be used; the old one stays", reason=failure.message)
            return
        self._pems = pems
        self._configuration = self._make_configuration()
        _log.info("the certificate was read again", file=str(self._files.certificate))
        for told in self.changed:
            told()

    def _make_configuration(self) -> grpc.ServerCertificateConfiguration:
        pems = self._pems
        return grpc.ssl_server_certificate_configuration(
            [(pems.key, pems.certificate)], root_certificates=pems.authorities
        )


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.clients_need_one:
        context.verify_mode = ssl.CERT_REQUIRED
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Raises INVALID_CONFIG; what the context had it then has still."""
    # A context whose second file is no good has the first one already.
    for target in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
        try:
            # An encrypted key would be asked for on a terminal otherwise.
            target.load_cert_chain(files.certificate, files.key, password="")
        except (OSError, ValueError) as failure:
            raise _unusable(f"{files.certificate} and {files.key}", failure) from failure
        if files.authorities is not None:
            try:
                target.load_verify_locations(files.authorities)
            except (OSError, ValueError) as failure:
                raise _unusable(str(files.authorities), failure) from failure


def _read(files: TlsFiles) -> _Pems:
    def content(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as failure:
            raise _unusable(str(path), failure) from failure

    authorities = None if files.authorities is None else content(files.authorities)
    return _Pems(content(files.certificate), content(files.key), authorities)


def _unusable(what: str, failure: Exception) -> KafkaError:
    if isinstance(failure, ssl.SSLError) or not isinstance(failure, OSError):
        reason = {
            "KEY_VALUES_MISMATCH": "the key is another certificate's",
            "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in it",
        }.get(getattr(failure, "reason", None) or "", "no certificate and key in PEM, without a password")
    else:
        reason = failure.strerror or str(failure)
    return KafkaError(ErrorCode.INVALID_CONFIG, f"TLS cannot be served with {what}: {reason}.")


def _marks(files: TlsFiles) -> tuple[tuple[int, int], ...]:
    """Changes when a file is written, or another is put in its place."""
    marks = []
    for path in (files.certificate, files.key, files.authorities):
        with contextlib.suppress(OSError):
            if path is not None:
                status = path.stat()
                marks.append((status.st_mtime_ns, status.st_ino))
    return tuple(marks)
