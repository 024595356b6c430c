"""Validated settings of `sharebroker serve`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import orjson

from sharebroker_protocol.address import is_loopback
from sharebroker_protocol.credentials import read_password
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.settings import OFF, TracingSettings
from sharebroker_server.broker.defaults import CLOSED, DEFAULT_DATA, DEFAULT_GRPC, DEFAULT_KAFKA
from sharebroker_server.catalog.users import CreateUser, check_user_name
from sharebroker_server.config.broker import BROKER_KEYS, BrokerConfig
from sharebroker_server.config.keys import split
from sharebroker_server.kafka_client.settings import UpstreamSettings, upstream_settings
from sharebroker_server.redis_link.memory import SMALLEST_LIMIT
from sharebroker_server.redis_link.port import RedisUrlInvalid
from sharebroker_server.redis_link.sentinel import addresses
from sharebroker_server.redis_link.server import is_resolvable
from sharebroker_server.routing.router import GATEWAY, ROLES
from sharebroker_server.rpc.tls import TlsFiles
from sharebroker_server.security.authentication.scram import (
    OAUTHBEARER,
    PLAIN,
    ScramMechanism,
    new_credential,
)

_SEPARATOR: Final = re.compile(r"(?<!\\);")
"""Separates subjects; RFC 2253 escapes a semicolon within a subject."""

_KAFKA: Final = "kafka://"

Fsync = Literal["always", "everysec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Settings of one broker, or of several in a process each.

    Without `redis` an embedded Valkey is started below `data`.

    `max_memory` is the limit of its data in bytes, 0 for none, None for the default of this machine.

    Only a broker with the role `gateway` opens a Kafka listener. A new cluster starts with the levels in
    `features`. At `metrics` (HOST:PORT) it serves metrics and health checks. With `tls` both listeners and
    all calls to peers are encrypted. `telemetry` holds the settings of OpenTelemetry's variables. Without
    `cluster_secret_file` the cluster's secret is stored in Redis. A broker with the role
    `group-coordinator` creates `first_user` unless it exists. With `upstream` the records are in that Kafka
    cluster; with `proxy` the requests of producers and consumers are passed to it.
    """

    data: Path = DEFAULT_DATA
    processes: int = 1
    roles: frozenset[str] = frozenset(ROLES)
    grpc: str = DEFAULT_GRPC
    redis: str | None = None
    advertise: str | None = None
    kafka: str = DEFAULT_KAFKA
    kafka_advertise: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    fsync: Fsync = "always"
    max_memory: int | None = None
    ready_file: Path | None = None
    metrics: str | None = None
    tls: TlsFiles | None = None
    telemetry: TracingSettings = OFF
    first_user: CreateUser | None = None
    cluster_secret_file: Path | None = None
    upstream: UpstreamSettings | None = None
    proxy: bool = False
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


def parse_size(text: str, option: str) -> int:
    """Parses bytes with an optional unit KiB, MiB, GiB or TiB. Raises KafkaError INVALID_CONFIG."""
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]iB)?", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        raise invalid(f"{option} takes bytes, for example 512MiB or 4GiB; not {text!r}.")
    return int(match[1]) << (10 * (1 + "KMGT".index(match[2][0].upper())) if match[2] else 0)


def parse_max_memory(text: str | None) -> int | None:
    """Parses `--max-memory`; returns 0 for no limit, None for the default. Raises INVALID_CONFIG."""
    if text is None:
        return None
    limit = parse_size(text, "--max-memory")
    if 0 < limit < SMALLEST_LIMIT:
        raise invalid(f"--max-memory must be 0 or at least {SMALLEST_LIMIT >> 20}MiB; not {text!r}.")
    return limit


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


def check_proxy(proxy: bool, log: str | None, kafka: str) -> bool:
    """Returns `proxy`. Raises INVALID_CONFIG unless a Kafka listener and `--log` are there as well."""
    if proxy and log is None:
        raise invalid("--proxy needs --log kafka://HOST:PORT,…: the cluster that requests are passed to.")
    if proxy and kafka == CLOSED:
        raise invalid("--proxy needs a Kafka listener: leave out --kafka none.")
    return proxy


def parse_log(log: str | None, config: Path | None) -> UpstreamSettings | None:
    """Parses `--log` and `--upstream-config`; returns None without them. Raises INVALID_CONFIG."""
    if log is None and config is None:
        return None
    if log is not None and not log.startswith(_KAFKA):
        # The text may be a URL with a password.
        raise invalid("--log takes kafka://HOST:PORT,…, for example kafka://b1:9092,b2:9092.")
    return upstream_settings(config, (log or "").removeprefix(_KAFKA).rstrip("/"))


def parse_first_user(name: str | None, password_file: Path | None) -> CreateUser | None:
    """Parses the `--admin-…` options; returns None without them. Raises KafkaError INVALID_CONFIG."""
    if name is None and password_file is None:
        return None
    if name is None or password_file is None:
        raise invalid("The first user needs both --admin-user and --admin-password-file.")
    try:
        check_user_name(name)
        password = read_password(password_file)
    except KafkaError as error:
        raise invalid(f"--admin-user: {error.message}.") from error
    except ValueError as error:
        raise invalid(f"--admin-password-file {password_file}: {error}.") from error
    return CreateUser(name, {each: new_credential(each, password) for each in ScramMechanism})


def check_authentication(tls: TlsFiles | None, config: BrokerConfig) -> None:
    """Raises INVALID_CONFIG if passwords would be transmitted without TLS."""
    if tls is None and PLAIN in split(config.sasl_enabled_mechanisms):
        raise invalid(
            "PLAIN in sasl.enabled.mechanisms transmits passwords and needs --tls-cert and --tls-key."
        )


def unauthenticated(settings: ServeSettings) -> list[str]:
    """Returns sentences about listeners whose clients are not authenticated, or cannot be."""
    if GATEWAY not in settings.roles:
        return []
    if settings.first_user is None or settings.config.sasl_enabled_mechanisms:
        return _served_to_anyone(settings)
    text = "No client can authenticate as the user of --admin-user; set sasl.enabled.mechanisms."
    return [text, *_served_to_anyone(settings)]


def _served_to_anyone(settings: ServeSettings) -> list[str]:
    certificates = settings.tls is not None and settings.tls.requires_client_certificates
    if settings.config.sasl_enabled_mechanisms and settings.config.sasl_client_auth == "required":
        if settings.tls is None and OAUTHBEARER not in settings.config.sasl_enabled_mechanisms:
            return ["gRPC clients cannot authenticate without TLS (--tls-cert); their calls are rejected."]
        return []
    if certificates:
        return []
    listeners = [("--grpc", settings.grpc), *([("--kafka", settings.kafka)] if settings.opens_kafka else [])]
    mechanisms = settings.config.sasl_enabled_mechanisms
    remedy = (
        "sasl.client.auth=required" if mechanisms else "sasl.enabled.mechanisms or ssl.client.auth=required"
    )
    return [
        f"Anyone who reaches {option} {address} is served without authentication; set {remedy}."
        for option, address in listeners
        if not is_loopback(address.rpartition(":")[0])
    ]


def parse_principals(config: BrokerConfig) -> frozenset[str]:
    """Parses `broker.principals`; a prefix `User:` as in Kafka is accepted. Raises INVALID_CONFIG."""
    texts = (text.strip().removeprefix("User:") for text in _SEPARATOR.split(config.broker_principals))
    principals = frozenset(filter(None, texts))
    if principals and config.ssl_client_auth != "required":
        raise invalid("broker.principals needs ssl.client.auth=required: gRPC requests no certificate else.")
    return principals


def parse_super_users(config: BrokerConfig) -> frozenset[str]:
    """Parses `super.users`: principals as text, such as `User:admin`. Raises INVALID_CONFIG."""
    texts = (text.strip() for text in _SEPARATOR.split(config.super_users))
    principals = frozenset(filter(None, texts))
    for principal in sorted(principals):
        if not all(principal.partition(":")):
            raise invalid(
                f"super.users takes principals such as User:admin, separated by ;, not {principal!r}."
            )
    return principals


def describe(settings: ServeSettings) -> str:
    """Returns all settings as JSON without secrets, properties by Kafka's names. Raises INVALID_CONFIG."""
    try:
        redis = None if settings.redis is None else addresses(settings.redis)
    except RedisUrlInvalid as error:
        raise invalid(str(error)) from error
    upstream = settings.upstream
    fields = asdict(replace(settings, upstream=None)) | {
        "upstream": None if upstream is None else upstream.public(),
        "redis": redis,
        "roles": sorted(settings.roles),
        "properties": {name: settings.config.get(name) for name in BROKER_KEYS},
    }
    del fields["config"], fields["first_user"]
    fields["admin_user"] = None if settings.first_user is None else settings.first_user.user
    if settings.tls is not None:
        del fields["tls"]["requires_client_certificates"]
    return orjson.dumps(fields, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
