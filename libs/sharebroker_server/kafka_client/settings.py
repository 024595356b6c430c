"""Settings of the connections to another cluster, from a property file of Kafka's clients."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharebroker_protocol.credentials import read_password
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.connection import ConnectionSettings
from sharebroker_server.kafka_client.core.client_properties import ClientProperties, client_properties
from sharebroker_server.kafka_client.core.properties import Reference, parse_properties, resolved
from sharebroker_server.kafka_client.files import file_text
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.kafka_client.login import LoginSource
from sharebroker_server.kafka_client.tls import tls_context
from sharebroker_server.security.authentication.scram import OAUTHBEARER


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
            tls=tls_context(properties) if properties.tls else None,
            login=None if login is None else LoginSource(login),
            setup_timeout=properties.setup_timeout_ms / 1000,
            request_timeout=properties.request_timeout_ms / 1000,
        ),
    )


def _properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(file_text(path))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--upstream-config {path}: {error}.") from None


def _referred(reference: Reference) -> str:
    """Returns the value that a property refers to. Raises ValueError."""
    if reference.provider == "env":
        value = os.environ.get(reference.path)
        if value is None:
            raise ValueError("the variable is not set")
        return value
    if reference.provider == "dir":
        return read_password(Path(reference.path, reference.key))
    values = parse_properties(file_text(Path(reference.path)))
    if reference.key not in values:
        raise ValueError("the file has no such property")
    return values[reference.key]
