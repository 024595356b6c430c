"""The systems that are compared, each started in a fresh folder, with a TLS listener or a plain one."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.perf.checkout import HERE, Checkout
from tests.perf.kafka.programs import CLIENT_FLAGS, Target
from tests.perf.processes import BenchFailed
from tests.perf.procfs import PROC, Stat, command_line, tree
from tests.perf.servers import Fsync, serving
from tests.support.kafka_server import KafkaCluster, Node, options_over
from tests.support.kafka_tools import ToolFailed
from tests.testkit.certificates import Authority
from tests.testkit.servers import free_port

KAFKA: Final = "Kafka 4.3.1"
LIKE_FOR_LIKE: Final = "Sharebroker, everysec"
"""Kafka replies before its records are on the disk, and so does this."""

DURABLE: Final = "Sharebroker, always"
OVER_KAFKA: Final = "Sharebroker over Kafka 4.3.1"
"""Share groups of Sharebroker over topics of Kafka. The CPU is that of Sharebroker alone."""

KAFKA_FLAGS: Final = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""The JVM options of Kafka's start script. Nothing restricts the compiler."""

_SLOWER: Final = ("-XX:TieredStopAtLevel", "-Xint", "-XX:-TieredCompilation")

Start = Callable[[Path, bool], AbstractContextManager[Target]]
"""Starts a system in a folder; with TLS where the second argument is true."""


class _TlsKafka(KafkaCluster):
    """One node with a TLS listener beside the plain one."""

    def __init__(self, folder: Path, identity: Path, authority: Path) -> None:
        self.tls_port = free_port()
        self._identity = identity
        self._authority = authority
        super().__init__(folder, flags=KAFKA_FLAGS)

    def _broker_properties(self, node: Node) -> dict[str, object]:
        plain = super()._broker_properties(node)
        listener = f",SSL://127.0.0.1:{self.tls_port}"
        return {
            **plain,
            "listeners": f"{plain['listeners']}{listener}",
            "advertised.listeners": f"{plain['advertised.listeners']}{listener}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._identity,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._authority,
        }


@contextlib.contextmanager
def kafka(folder: Path, tls: bool) -> Iterator[Target]:
    """Apache Kafka. Raises BenchFailed when it does not start, or with a restricted compiler."""
    config = None
    if tls:
        authority = Authority.make(folder / "tls")
        identity = authority.issue("server", "127.0.0.1", "localhost")
        cluster: KafkaCluster = _TlsKafka(folder / "kafka", identity.both, authority.file)
        config = _client_config(folder, authority.file)
    else:
        cluster = KafkaCluster(folder / "kafka", flags=KAFKA_FLAGS)
    try:
        cluster.start()
        pids = tuple(node.pid for node in cluster.brokers.values() if node.pid is not None)
        for pid in pids:
            require_full_compiler(command_line(pid))
        port = cluster.tls_port if isinstance(cluster, _TlsKafka) else None
        yield Target(f"127.0.0.1:{port}" if port else cluster.bootstrap, pids, config)
    except ToolFailed as failure:
        raise BenchFailed(str(failure)) from None
    finally:
        cluster.stop()


@contextlib.contextmanager
def sharebroker(folder: Path, tls: bool, fsync: Fsync, checkout: Checkout = HERE) -> Iterator[Target]:
    """Sharebroker with all roles in one process, and its Valkey. Raises BenchFailed."""
    options, config = ["--kafka", "127.0.0.1:0"], None
    if tls:
        authority = Authority.make(folder / "tls")
        identity = authority.issue("server", "127.0.0.1", "localhost")
        options += ["--tls-cert", str(identity.certificate), "--tls-key", str(identity.key)]
        options += ["--tls-ca", str(authority.file)]
        config = _client_config(folder, authority.file)
    with serving(folder, fsync, checkout=checkout, options=options) as server:
        yield Target(server.kafka, (server.pid,), config)


@contextlib.contextmanager
def sharebroker_over_kafka(folder: Path, tls: bool) -> Iterator[Target]:
    """Kafka, and Sharebroker with its records there. Raises BenchFailed, also with TLS."""
    if tls:
        raise BenchFailed("is measured without TLS only")
    with kafka(folder, tls) as below:
        options = ["--kafka", "127.0.0.1:0", *options_over(below.bootstrap, folder)]
        with serving(folder, "everysec", options=options) as server:
            yield Target(server.kafka, (server.pid,), upstream=below.bootstrap)


def _client_config(folder: Path, authority: Path) -> Path:
    config = folder / "client.properties"
    config.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
    )
    return config


SYSTEMS: Final[dict[str, Start]] = {
    KAFKA: kafka,
    LIKE_FOR_LIKE: lambda folder, tls: sharebroker(folder, tls, "everysec"),
    DURABLE: lambda folder, tls: sharebroker(folder, tls, "always"),
}
"""Those that are compared by default."""

UPSTREAM_SYSTEMS: Final[dict[str, Start]] = {
    KAFKA: kafka,
    LIKE_FOR_LIKE: SYSTEMS[LIKE_FOR_LIKE],
    OVER_KAFKA: sharebroker_over_kafka,
}
"""Share groups of Kafka, of Sharebroker's own log, and of Sharebroker over Kafka."""

UPSTREAM_PROGRAMS: Final = ("implicit1", "implicit4", "explicit1", "explicit4", "single1", "idle")


def jvm_flags(words: Sequence[str]) -> list[str]:
    """The flags on a JVM's command line: the options before the main class."""
    flags = []
    for word in words[1:]:
        if not word.startswith("-"):
            break
        flags.append(word)
    return flags


def require_full_compiler(words: Sequence[str]) -> None:
    """Raises BenchFailed when a JVM's command line keeps it from compiling at its highest level."""
    found = [flag for flag in jvm_flags(words) if flag.startswith(_SLOWER)]
    if found:
        raise BenchFailed(f"Kafka's JVM is restricted by {' '.join(found)}")


def describe(system: str, target: Target) -> str:
    """A running system's versions and flags, in a line."""
    if system == KAFKA:
        return f"{KAFKA}: {_java_version()}, {' '.join(jvm_flags(command_line(target.pids[0])))}"
    stats = {stat.pid: stat for stat in _stats()}
    below = [command_line(stat.pid) for stat in tree(target.pids[0], stats)]
    storage = next((words[0] for words in below if words and "-server" in Path(words[0].split()[0]).name), "")
    return ", ".join(
        [
            f"{system}: {_package('sharebroker-server')} at {HERE.revision()}",
            f"Python {platform.python_version()}",
            f"uvloop {_package('uvloop')}",
            _storage_version(storage.split()[0] if storage else ""),
            " ".join(_options(command_line(target.pids[0]))),
        ]
    )


def describe_clients() -> str:
    """The clients' versions and flags, in a line."""
    flags = " ".join(CLIENT_FLAGS)
    return f"Clients: Kafka's Java client 4.3.1, {flags}; confluent-kafka {_package('confluent-kafka')}"


def _options(words: Sequence[str]) -> list[str]:
    """The options of `serve` that affect speed, without addresses and folders."""
    shown = []
    for option, value in pairwise(words):
        if option == "--fsync":
            shown += [option, value]
        elif option == "--tls-cert":
            shown.append("TLS")
    return shown


def _stats() -> Iterator[Stat]:
    for path in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield Stat.parse(path.read_text(errors="replace"))


def _java_version() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return next((line for line in done.stderr.splitlines() if "Runtime" in line or "VM" in line), "Java")


def _storage_version(binary: str) -> str:
    if not binary:
        return "Valkey"
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return Path(binary).name
    return " ".join(done.stdout.split()[:3])


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
