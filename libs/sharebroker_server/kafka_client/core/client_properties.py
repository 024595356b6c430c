"""The properties of Kafka's clients from which connections to another cluster are made.

A property about security that the client does not implement is rejected: to ignore it would connect otherwise
than its author meant. Others, such as those of producers, have no effect and are reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from sharebroker_server.kafka_client.core.properties import LoginModule, invalid_property, parse_jaas
from sharebroker_server.security.authentication.scram import OAUTHBEARER, PLAIN, SCRAM

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = (PLAIN, *SCRAM, OAUTHBEARER)

_MODULES: Final = {
    "PlainLoginModule": (PLAIN,),
    "ScramLoginModule": tuple(SCRAM),
    "OAuthBearerLoginModule": (OAUTHBEARER,),
}
_EXTENSION: Final = "extension_"
_NAME: Final = re.compile(r"[A-Za-z]+")
_SECURITY: Final = ("ssl.", "sasl.", "security.")

_WITHOUT_EFFECT: Final = frozenset(
    {
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
        "sasl.login.class",
        "security.providers",
    }
)
"""Properties about Java's implementation of TLS and SASL."""


class Pem(NamedTuple):
    """PEM text, or the path of a file with it."""

    text: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class LoginProperties:
    """How the client authenticates. The text of the object contains no secret.

    With OAUTHBEARER `token_url` returns the token: a file, or an endpoint that accepts `username` and
    `password` as client id and secret.
    """

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token_url: str = ""
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """Validated properties of a client; times in milliseconds, sizes in bytes.

    `ignored` are the names of those that have no effect.
    """

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str
    tls: bool
    login: LoginProperties | None
    trusted: Pem | None
    certificate: Pem | None
    key: Pem | None = field(repr=False)
    key_password: str = field(repr=False)
    checks_host_name: bool
    setup_timeout_ms: int
    request_timeout_ms: int
    metadata_max_age_ms: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    partition_bytes: int
    response_bytes: int
    topics: str
    ignored: tuple[str, ...] = ()


class _Reader:
    """Takes properties one by one, so that those which nothing has taken are known."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self.taken: set[str] = set()

    def text(self, *names: str, default: str = "") -> str:
        """Returns the value of the first of these names that is set."""
        self.taken.update(names)
        return next((self._properties[name].strip() for name in names if self._properties.get(name)), default)

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Returns one of the choices. Raises INVALID_CONFIG."""
        value = self.text(name, default=default)
        if value not in choices:
            raise invalid_property(name, f"it must be one of {', '.join(choices)}, not {value!r}.")
        return value

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Returns a number from `low` to `high`. Raises INVALID_CONFIG."""
        value = self.text(name, default=str(default))
        if not re.fullmatch(r"\d{1,12}", value, re.ASCII) or not low <= int(value) <= high:
            raise invalid_property(name, f"it must be a number from {low} to {high}, not {value!r}.")
        return int(value)

    def rest(self) -> list[str]:
        """Returns the names that nothing has taken."""
        return sorted(self._properties.keys() - self.taken)


def parse_bootstrap(text: str, name: str) -> tuple[tuple[str, int], ...]:
    """Returns hosts and ports of HOST:PORT,… . Raises INVALID_CONFIG for the property `name`."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = part.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not re.fullmatch(r"[\w.-]+|[0-9a-fA-F:.%]*:[0-9a-fA-F:.%]*", host, re.ASCII) or not (
            re.fullmatch(r"\d{1,5}", port, re.ASCII) and 1 <= int(port) <= 65_535
        ):
            raise invalid_property(name, "it takes HOST:PORT,…, for example b1:9092,b2:9092.")
        found.append((host, int(port)))
    if not found:
        raise invalid_property(name, "it takes HOST:PORT,…, for example b1:9092,b2:9092.")
    return tuple(dict.fromkeys(found))


def client_properties(properties: Mapping[str, str], bootstrap: str = "") -> ClientProperties:
    """Returns the validated properties; `bootstrap` replaces `bootstrap.servers`.

    Raises:
        KafkaError: INVALID_CONFIG with the name of the property and without its value if that may be secret.
    """
    read = _Reader(properties)
    servers = read.text("bootstrap.servers")
    protocol = read.choice("security.protocol", PROTOCOLS, "PLAINTEXT")
    tls = protocol.endswith("SSL")
    login = _login(read) if protocol.startswith("SASL") else None
    if login is None:
        _unused(read, "sasl.")
    trusted, certificate, key, key_password = _tls(read) if tls else (None, None, None, "")
    algorithm = read.choice("ssl.endpoint.identification.algorithm", ("https", "none"), "https")
    checks_host_name = algorithm == "https" and properties.get("ssl.endpoint.identification.algorithm") != ""
    if not tls:
        _unused(read, "ssl.")
    found = ClientProperties(
        bootstrap=parse_bootstrap(bootstrap or servers, "--log" if bootstrap else "bootstrap.servers"),
        client_id=read.text("client.id", default="sharebroker"),
        tls=tls,
        login=login,
        trusted=trusted,
        certificate=certificate,
        key=key,
        key_password=key_password,
        checks_host_name=checks_host_name,
        setup_timeout_ms=read.number("socket.connection.setup.timeout.ms", 10_000, 100, 600_000),
        request_timeout_ms=read.number("request.timeout.ms", 30_000, 1_000, 600_000),
        metadata_max_age_ms=read.number("metadata.max.age.ms", 30_000, 1_000, 3_600_000),
        fetch_max_wait_ms=read.number("fetch.max.wait.ms", 500, 1, 20_000),
        fetch_min_bytes=read.number("fetch.min.bytes", 1, 1, 1 << 20),
        partition_bytes=read.number("max.partition.fetch.bytes", 1 << 20, 1_024, 64 << 20),
        response_bytes=read.number("fetch.max.bytes", 50 << 20, 1_024, 64 << 20),
        topics=_pattern(read),
    )
    for name in read.rest():
        if name.startswith(_SECURITY) and name not in _WITHOUT_EFFECT:
            raise invalid_property(name, "this property is not supported for the upstream cluster.")
    return replace(found, ignored=tuple(read.rest()))


def _pattern(read: _Reader) -> str:
    pattern = read.text("topics", default=".*")
    try:
        re.compile(pattern)
    except re.error as error:
        raise invalid_property("topics", f"it is not a regular expression: {error}.") from None
    return pattern


def _unused(read: _Reader, prefix: str) -> None:
    """Takes the properties with a prefix, which have no effect with this security protocol."""
    read.taken.update(name for name in read.rest() if name.startswith(prefix))


def _login(read: _Reader) -> LoginProperties:
    mechanism = read.text("sasl.mechanism", "sasl.mechanisms")
    if mechanism not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise invalid_property("sasl.mechanism", f"it must be one of {known}, not {mechanism or 'empty'!r}.")
    module = _module(read, mechanism)
    if mechanism == OAUTHBEARER:
        return _token_login(read, module.options)
    username = read.text("sasl.username", default=module.options.get("username", ""))
    password = read.text("sasl.password", default=module.options.get("password", ""))
    if not username or not password:
        raise invalid_property(
            "sasl.jaas.config",
            f"{mechanism} needs a username and a password, or sasl.username, sasl.password.",
        )
    return LoginProperties(mechanism, username, password)


def _module(read: _Reader, mechanism: str) -> LoginModule:
    text = read.text("sasl.jaas.config")
    if not text:
        return LoginModule("", {})
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise invalid_property("sasl.jaas.config", f"{error}.") from None
    if mechanism not in _MODULES.get(module.name, ()):
        raise invalid_property("sasl.jaas.config", f"{module.name} is not a login module of {mechanism}.")
    return module


def _token_login(read: _Reader, options: Mapping[str, str]) -> LoginProperties:
    url = read.text("sasl.oauthbearer.token.endpoint.url")
    client = read.text("sasl.oauthbearer.client.credentials.client.id", default=options.get("clientId", ""))
    secret = read.text(
        "sasl.oauthbearer.client.credentials.client.secret", default=options.get("clientSecret", "")
    )
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    for name, value in extensions.items():
        if not _NAME.fullmatch(name) or name == "auth" or not value.isprintable():
            raise invalid_property("sasl.jaas.config", f"the extension {name!r} is invalid.")
    if not url:
        raise invalid_property(
            "sasl.oauthbearer.token.endpoint.url", "OAUTHBEARER needs https://… or file:///… of a token."
        )
    if not url.startswith("file:") and not (client and secret):
        raise invalid_property("sasl.jaas.config", "the token endpoint needs clientId and clientSecret.")
    scope = read.text("sasl.oauthbearer.scope", default=options.get("scope", ""))
    return LoginProperties(OAUTHBEARER, client, secret, url, scope, extensions)


def _tls(read: _Reader) -> tuple[Pem | None, Pem | None, Pem | None, str]:
    trusted = _store(read, "ssl.truststore", "ssl.truststore.certificates", "ssl.ca.location")
    certificate = _store(read, "ssl.keystore", "ssl.keystore.certificate.chain", "ssl.certificate.location")
    key = _pem(read, "ssl.keystore.key", "ssl.key.location")
    if key is None and certificate is not None and certificate.path:
        key = certificate
    if (key is None) is not (certificate is None):
        raise invalid_property("ssl.keystore.key", "a certificate and its key must be set together.")
    return trusted, certificate, key, read.text("ssl.key.password", "ssl.keystore.password")


def _store(read: _Reader, prefix: str, text_name: str, path_name: str) -> Pem | None:
    """Returns Kafka's store with PEM as its type, else the PEM of the two other properties."""
    location = read.text(f"{prefix}.location")
    kind = read.text(f"{prefix}.type", default="JKS" if location else "PEM")
    if kind != "PEM":
        raise invalid_property(
            f"{prefix}.type",
            f"the only supported type is PEM, not {kind}; `keytool` and `openssl pkcs12` convert a store.",
        )
    return Pem(path=location) if location else _pem(read, text_name, path_name)


def _pem(read: _Reader, text_name: str, path_name: str) -> Pem | None:
    text, path = read.text(text_name), read.text(path_name)
    return Pem(text=text) if text else Pem(path=path) if path else None
