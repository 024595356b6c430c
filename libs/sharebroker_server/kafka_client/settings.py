"""Settings of the connections to another cluster, from a property file of Kafka's clients."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from time import time
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from sharebroker_protocol.credentials import TokenError, checked_token, expiry, read_password
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.connection import ConnectionSettings
from sharebroker_server.kafka_client.core.client_properties import (
    ClientProperties,
    Login,
    Pem,
    client_properties,
)
from sharebroker_server.kafka_client.core.properties import (
    Reference,
    invalid_property,
    parse_properties,
    resolved,
)
from sharebroker_server.kafka_client.core.sasl import Credentials
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.security.key_download import check_url, read_url
from sharebroker_server.security.scram import OAUTHBEARER

LARGEST_FILE: Final = 1 << 20
"""Bytes of a property file or PEM file."""

USED_LIFETIME: Final = 0.8
"""The fraction of a token's lifetime after which it is replaced (Kafka: sasl.login.refresh.window.factor)."""


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """The cluster that has the records: its properties, and how to connect."""

    properties: ClientProperties
    connection: ConnectionSettings

    @property
    def bootstrap(self) -> tuple[BrokerAddress, ...]:
        """Returns the bootstrap addresses."""
        return tuple(BrokerAddress(host, port) for host, port in self.properties.bootstrap)

    @property
    def addresses(self) -> str:
        """Returns the bootstrap addresses as text."""
        return ",".join(map(str, self.bootstrap))

    def public(self) -> dict[str, Any]:
        """Returns the settings without secrets."""
        properties, login = self.properties, self.properties.login
        protocol = ("SASL_" if login else "") + ("SSL" if properties.tls else "PLAINTEXT")
        return {
            "bootstrap.servers": self.addresses,
            "security.protocol": protocol,
            "sasl.mechanism": login.mechanism if login else None,
            "sasl.username": login.username if login and login.mechanism != OAUTHBEARER else None,
            "client.id": properties.client_id,
            "client.rack": properties.rack,
            "topics": properties.topics,
        }


def upstream_settings(path: Path | None, bootstrap: str = "") -> UpstreamSettings:
    """Returns the settings of a property file; `bootstrap` (HOST:PORT,…) replaces its bootstrap servers.

    Raises:
        KafkaError: INVALID_CONFIG with the name of a property or file, and without a secret.
    """
    given = {} if path is None else resolved(_properties(path), _referred)
    properties = client_properties(given, bootstrap)
    login = properties.login
    return UpstreamSettings(
        properties,
        ConnectionSettings(
            client_id=properties.client_id,
            tls=_tls(properties) if properties.tls else None,
            login=None if login is None else LoginSource(login),
            setup_timeout=properties.setup_timeout_ms / 1000,
            request_timeout=properties.request_timeout_ms / 1000,
        ),
    )


class LoginSource:
    """Returns the credentials of a new connection; access tokens are reused until they expire soon."""

    def __init__(self, login: Login) -> None:
        if login.mechanism == OAUTHBEARER:
            try:
                check_url(login.token_url)
            except ValueError as error:
                raise invalid_property("sasl.oauthbearer.token.endpoint.url", f"{error}.") from None
        self._login = login
        self._token = ""
        self._replace_at = 0.0

    async def __call__(self) -> Credentials:
        """Raises SASL_AUTHENTICATION_FAILED if there is no access token."""
        login = self._login
        if login.mechanism != OAUTHBEARER:
            return Credentials(login.mechanism, login.username, login.password)
        if time() >= self._replace_at:
            self._token = await asyncio.to_thread(_read_token, login)
            now = time()
            self._replace_at = now + USED_LIFETIME * max(0.0, expiry(self._token) - now)
        return Credentials(OAUTHBEARER, login.username, self._token, login.extensions)


def _read_token(login: Login) -> str:
    """Returns the token of a file or an endpoint (RFC 6749, 4.4). Raises SASL_AUTHENTICATION_FAILED."""
    try:
        if login.token_url.startswith("file:"):
            return checked_token(read_url(login.token_url).decode("ascii", "replace"))
        identity = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
        form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
        headers = {"Authorization": f"Basic {identity}", "Accept": "application/json"}
        response = orjson.loads(read_url(login.token_url, urlencode(form).encode(), headers))
        return checked_token(response.get("access_token") if isinstance(response, dict) else None)
    except (OSError, ValueError, HTTPException, TokenError) as error:
        # Texts of errors have neither the request nor the response.
        raise KafkaError(
            ErrorCode.SASL_AUTHENTICATION_FAILED, f"{login.token_url} returned no access token: {error}"
        ) from None


def _properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(_text(path))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--upstream-config {path}: {error}.") from None


def _text(path: Path) -> str:
    """Returns the text of a file. Raises ValueError with the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        text = content.decode()
    except OSError as failure:
        raise ValueError(failure.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if len(content) > LARGEST_FILE:
        raise ValueError(f"it has more than {LARGEST_FILE} bytes")
    return text


def _referred(reference: Reference) -> str:
    """Returns the value that a property refers to. Raises ValueError."""
    if reference.provider == "env":
        value = os.environ.get(reference.path)
        if value is None:
            raise ValueError("the variable is not set")
        return value
    if reference.provider == "dir":
        return read_password(Path(reference.path, reference.key))
    values: Mapping[str, str] = parse_properties(_text(Path(reference.path)))
    if reference.key not in values:
        raise ValueError("the file has no such property")
    return values[reference.key]


def _tls(properties: ClientProperties) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = properties.checks_host_name
    trusted, certificate, key = properties.trusted, properties.certificate, properties.key
    if trusted is None:
        context.load_default_certs()
    else:
        text = _pem_text("ssl.truststore", trusted)
        _checked("ssl.truststore", partial(context.load_verify_locations, cadata=text))
    if certificate is not None and key is not None:
        texts = _pem_text("ssl.keystore", certificate), _pem_text("ssl.keystore.key", key)
        load = partial(_load_certificate, context, *texts, properties.key_password)
        _checked("ssl.keystore", load)
    return context


def _pem_text(name: str, pem: Pem) -> str:
    if pem.text:
        return pem.text
    try:
        return _text(Path(pem.path))
    except ValueError as error:
        raise invalid_property(name, f"{pem.path}: {error}.") from None


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
    """Loads a certificate, for which OpenSSL needs a file; the password of the key may be empty."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable for its owner only
        file.write(f"{key}\n{certificate}\n")
        file.flush()
        context.load_cert_chain(file.name, password=lambda: password)


def _checked(name: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (ssl.SSLError, ValueError) as error:
        raise invalid_property(
            name, f"the PEM is invalid, or its key has another password: {error}."
        ) from None
