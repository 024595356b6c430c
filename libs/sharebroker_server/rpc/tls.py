"""TLS of the listeners and of calls to peers, with one certificate that is reloaded when its files change."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from sharebroker_protocol.address import over_tls
from sharebroker_protocol.errors import ErrorCode, KafkaError

_log = structlog.get_logger()

RELOAD_INTERVAL: Final = 10.0
"""Seconds between two checks of the files."""

_SWITCH_PAUSE: Final = 0.05
"""Seconds between a change and its use, in a thread of gRPC: earlier connections begin their handshakes."""

Options = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: a certificate with its chain, its key, and authorities (the system's if None).

    `server_name` is the name in the certificates of peers, if it is not their address.
    """

    certificate: Path
    key: Path
    authorities: Path | None = None
    requires_client_certificates: bool = False
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class _Pems:
    certificate: bytes
    key: bytes
    authorities: bytes | None


class Tls:
    """Credentials of both listeners. `watch` reloads them; the callbacks in `changed` run after a change."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises KafkaError INVALID_CONFIG with the name of an unusable file."""
        self._files = files
        self._pems = _read(files)
        self._context = _context(files)
        self._loaded_marks = _marks(files)
        self._configuration = self._make_configuration()
        self.changed: list[Callable[[], None]] = []

    @property
    def context(self) -> ssl.SSLContext:
        """The context of asyncio servers; a reload changes this object in place."""
        return self._context

    def server_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials of gRPC servers."""
        changes: Any = self._changes()  # the types lack None
        return grpc.dynamic_ssl_server_credentials(
            self._configuration, changes, self._files.requires_client_certificates
        )

    def channel(self, address: str, options: Options) -> grpc.aio.Channel:
        """Returns a channel to a peer, with our certificate."""
        credentials = grpc.ssl_channel_credentials(
            self._pems.authorities, self._pems.key, self._pems.certificate
        )
        named = over_tls(options, self._files.server_name)
        return grpc.aio.secure_channel(address, credentials, options=named)

    def _changes(self) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
        """Returns a function that returns each new configuration once, and None while nothing changed.

        gRPC calls it for every connection. A configuration replaces the context of the previous one, which
        another thread may be about to use: gRPC does not count that use, and the process would crash
        (grpc/grpc#36693). Connections that arrive during the pause wait for the new context.
        """
        given = self._configuration

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            current = self._configuration
            if current is given:
                return None
            time.sleep(_SWITCH_PAUSE)
            given = current
            return current

        return fetch

    async def watch(self) -> None:
        """Reloads changed files until it is cancelled.

        The current certificate stays in use if the new one is unusable.
        """
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            self.refresh()

    def refresh(self) -> None:
        """Reloads the files if they changed."""
        marks = _marks(self._files)
        if marks == self._loaded_marks:
            return
        self._loaded_marks = marks
        try:
            pems = _read(self._files)
            _load(self._context, self._files)
        except KafkaError as failure:
            _log.error("certificate reload failed; keeping the current one", reason=failure.message)
            return
        self._pems = pems
        self._configuration = self._make_configuration()
        _log.info("certificate reloaded", file=str(self._files.certificate))
        for callback in self.changed:
            callback()

    def _make_configuration(self) -> grpc.ServerCertificateConfiguration:
        pems = self._pems
        return grpc.ssl_server_certificate_configuration(
            [(pems.key, pems.certificate)], root_certificates=pems.authorities
        )


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.requires_client_certificates:
        context.verify_mode = ssl.CERT_REQUIRED
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Loads the files into a context. Raises INVALID_CONFIG and leaves the context unchanged."""
    # The files are loaded into a new context first: a failure of the second file would leave the first one
    # loaded.
    for target in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
        try:
            # Without a password argument, OpenSSL would prompt for one at the terminal.
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
            "KEY_VALUES_MISMATCH": "the key belongs to another certificate",
            "NO_CERTIFICATE_OR_CRL_FOUND": "it contains no certificate",
        }.get(getattr(failure, "reason", None) or "", "not a certificate and key in PEM without a password")
    else:
        reason = failure.strerror or str(failure)
    return KafkaError(ErrorCode.INVALID_CONFIG, f"TLS cannot use {what}: {reason}.")


def _marks(files: TlsFiles) -> tuple[tuple[int, int], ...]:
    """Returns values that change when a file is written or replaced."""
    marks = []
    for path in (files.certificate, files.key, files.authorities):
        with contextlib.suppress(OSError):
            if path is not None:
                status = path.stat()
                marks.append((status.st_mtime_ns, status.st_ino))
    return tuple(marks)
