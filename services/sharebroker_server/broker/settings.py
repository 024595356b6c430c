"""Validated settings of `sharebroker serve`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal

import orjson

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.settings import OFF, TracingSettings
from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.redis_link.port import RedisUrlInvalid
from sharebroker_server.redis_link.sentinel import addresses
from sharebroker_server.redis_link.server import is_resolvable
from sharebroker_server.routing.router import GATEWAY, ROLES
from sharebroker_server.rpc.tls import TlsFiles

DEFAULT_GRPC: Final = "127.0.0.1:9090"
DEFAULT_KAFKA: Final = "127.0.0.1:9092"
CLOSED: Final = "none"
"""The value of `--kafka` for a broker without a Kafka listener."""

DEFAULT_DATA: Final = Path("data")

_SEPARATOR: Final = re.compile(r"(?<!\\);")
"""Separates subjects; RFC 2253 escapes a semicolon within a subject."""

Fsync = Literal["always", "everysec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Settings of one broker. Without `redis` it starts an embedded Valkey below `data`.

    Only a broker with the role `gateway` opens a Kafka listener; `features` are its feature levels. At
    `metrics` (HOST:PORT) it serves metrics and health checks. With `tls` both listeners and all calls to
    peers are encrypted. `telemetry` holds the settings of OpenTelemetry's variables. Without
    `cluster_secret_file` the cluster's secret is stored in Redis.
    """

    data: Path = DEFAULT_DATA
    roles: frozenset[str] = frozenset(ROLES)
    grpc: str = DEFAULT_GRPC
    redis: str | None = None
    advertise: str | None = None
    kafka: str = DEFAULT_KAFKA
    kafka_advertise: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    fsync: Fsync = "always"
    ready_file: Path | None = None
    metrics: str | None = None
    tls: TlsFiles | None = None
    telemetry: TracingSettings = OFF
    cluster_secret_file: Path | None = None
    config: BrokerConfig

    @property
    def watched(self) -> bool:
        """Whether metrics are served or exported."""
        return self.metrics is not None or self.telemetry.metrics is not None

    @property
    def opens_kafka(self) -> bool:
        """Whether this broker has a Kafka listener."""
        return GATEWAY in self.roles and self.kafka != CLOSED


def invalid(message: str) -> KafkaError:
    """Returns INVALID_CONFIG: the broker cannot start with these settings."""
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def parse_roles(text: str) -> frozenset[str]:
    """Parses `all` or comma-separated role names. Raises KafkaError INVALID_CONFIG."""
    if text == "all":
        return frozenset(ROLES)
    roles = frozenset(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(roles - frozenset(ROLES))
    if unknown or not roles:
        raise invalid(
            f"--roles takes `all` or some of {', '.join(ROLES)}; not {', '.join(unknown) or 'nothing'}."
        )
    return roles


def parse_address(text: str, option: str, lowest: int = 0) -> tuple[str, int]:
    """Parses HOST:PORT, with a port of `lowest` or more. Raises KafkaError INVALID_CONFIG."""
    host, _, port = text.rpartition(":")
    if not host or not is_resolvable(host) or not port.isdecimal() or not lowest <= int(port) <= 65_535:
        raise invalid(f"{option} takes HOST:PORT, for example 127.0.0.1:9090; not {text!r}.")
    return host, int(port)


def parse_tls(
    certificate: Path | None, key: Path | None, ca: Path | None, name: str | None, config: BrokerConfig
) -> TlsFiles | None:
    """Parses the `--tls-…` options; returns None without them. Raises KafkaError INVALID_CONFIG."""
    required = config.ssl_client_auth == "required"
    if certificate is None and key is None and ca is None and name is None and not required:
        return None
    if certificate is None or key is None:
        raise invalid("TLS needs both --tls-cert and --tls-key, or none of its options.")
    if required and ca is None:
        raise invalid("ssl.client.auth=required needs --tls-ca: the authority of clients' certificates.")
    return TlsFiles(certificate, key, ca, required, name)


def parse_principals(config: BrokerConfig) -> frozenset[str]:
    """Parses `broker.principals`; a prefix `User:` as in Kafka is accepted. Raises INVALID_CONFIG."""
    texts = (text.strip().removeprefix("User:") for text in _SEPARATOR.split(config.broker_principals))
    principals = frozenset(filter(None, texts))
    if principals and config.ssl_client_auth != "required":
        raise invalid("broker.principals needs ssl.client.auth=required: gRPC requests no certificate else.")
    return principals


def describe(settings: ServeSettings) -> str:
    """Returns all settings as JSON without secrets, properties by Kafka's names. Raises INVALID_CONFIG."""
    try:
        redis = None if settings.redis is None else addresses(settings.redis)
    except RedisUrlInvalid as error:
        raise invalid(str(error)) from error
    fields = asdict(settings) | {
        "redis": redis,
        "roles": sorted(settings.roles),
        "properties": {name: settings.config.get(name) for name in BROKER_KEYS},
    }
    del fields["config"]
    if settings.tls is not None:
        del fields["tls"]["requires_client_certificates"]
    return orjson.dumps(fields, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
