"""The settings of each broker of `serve --processes`: one gRPC port for all, other ports in sequence."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sharebroker_server.broker.identity import WILDCARD_HOSTS, PeerListener, advertised
from sharebroker_server.broker.logs import Format
from sharebroker_server.broker.settings import ServeSettings, invalid
from sharebroker_server.leases.identity import HIGHEST_NODE_ID
from sharebroker_server.process_cores import usable_cores
from sharebroker_server.rpc.tls import TlsFiles

MOST_PROCESSES: Final = 64
LOOPBACK: Final = "127.0.0.1"
_HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """What the process of a broker gets from its supervisor; brokers are numbered from 0."""

    index: int
    settings: ServeSettings
    peers: PeerListener
    log_format: Format = "auto"
    audit_file: Path | None = None


def parse_processes(text: str) -> int:
    """Parses `--processes`: a number, or `auto` for one per core. Raises KafkaError INVALID_CONFIG."""
    if text == "auto":
        return min(usable_cores(), MOST_PROCESSES)
    number = int(text) if len(text) < 10 and text.isascii() and text.isdecimal() else 0
    if not 1 <= number <= MOST_PROCESSES:
        raise invalid(f"--processes takes auto, or a number from 1 to {MOST_PROCESSES}; not {text!r}.")
    return number


def check_processes(settings: ServeSettings, platform: str = sys.platform) -> None:
    """Raises INVALID_CONFIG if the processes of `settings` cannot serve together."""
    if settings.processes == 1:
        return
    if platform != "linux":
        raise invalid("--processes needs Linux, which distributes the connections of a shared port.")
    tls = _peers_tls(settings)
    if tls is not None and tls.server_name in WILDCARD_HOSTS:
        raise invalid("--processes with TLS needs --advertise: its host is the name in the certificate.")
    needed = _needed_ports(settings)
    for option, ports in needed.items():
        if ports and ports[-1] > _HIGHEST_PORT:
            raise invalid(f"{option} needs the ports {ports[0]} to {ports[-1]} for {_brokers(settings)}.")
    used: dict[int, str] = {}
    for option, ports in needed.items():
        if option == "--kafka-advertise":
            continue
        for port in ports:
            if (other := used.setdefault(port, option)) != option:
                raise invalid(f"{other} and {option} both need the port {port} for {_brokers(settings)}.")


def _needed_ports(settings: ServeSettings) -> Mapping[str, range]:
    """Returns the ports by option. Port 0 stands for free ports."""
    count, kafka = settings.processes, settings.opens_kafka
    return {
        "--grpc": _ports(settings.grpc, 1),
        "--kafka": _ports(settings.kafka if kafka else None, count),
        "--kafka-advertise": _ports(settings.kafka_advertise if kafka else None, count),
        "--metrics": _ports(settings.metrics, count + 1),
    }


def _peers_tls(settings: ServeSettings) -> TlsFiles | None:
    """Returns the TLS of a broker. Peers at loopback have a certificate for the advertised host."""
    if settings.tls is None or settings.tls.server_name is not None or settings.redis is not None:
        return settings.tls
    host = advertised(settings, 0).rpartition(":")[0]
    return replace(settings.tls, server_name=host if host in WILDCARD_HOSTS else host.strip("[]"))


def _ports(address: str | None, count: int) -> range:
    port = 0 if address is None else int(address.rpartition(":")[2])
    return range(port, port + count) if port else range(0)


def _brokers(settings: ServeSettings) -> str:
    return f"{settings.processes} processes"


def peer_listener(settings: ServeSettings) -> PeerListener:
    """Returns the hosts at which the brokers call each other, and those of other machines call them.

    Brokers with an embedded Valkey have no peers on other machines.
    """
    if settings.redis is None:
        return PeerListener(LOOPBACK, LOOPBACK)
    return PeerListener(settings.grpc.rpartition(":")[0], advertised(settings, 0).rpartition(":")[0])


def broker_settings(settings: ServeSettings, port: int, redis: str, node_id: int) -> list[ServeSettings]:
    """Returns the settings of each broker.

    All serve `port` for gRPC and use the Redis at `redis`. Node ids begin with `node_id`. The ports of Kafka
    clients are in sequence; those of metrics, too, after the one of the supervisor.
    """
    host = settings.grpc.rpartition(":")[0]
    return [
        replace(
            settings,
            processes=1,
            grpc=f"{host}:{port}",
            advertise=advertised(settings, port),
            tls=_peers_tls(settings),
            redis=redis,
            kafka=_later(settings.kafka, index) if settings.opens_kafka else settings.kafka,
            kafka_advertise=settings.kafka_advertise and _later(settings.kafka_advertise, index),
            metrics=settings.metrics and _later(settings.metrics, 1 + index),
            max_memory=None if settings.redis is None else settings.max_memory,
            ready_file=None,
            config=replace(settings.config, node_id=(node_id + index) % (HIGHEST_NODE_ID + 1)),
        )
        for index in range(settings.processes)
    ]


def _later(address: str, number: int) -> str:
    """Returns the address with a port that is higher by `number`; port 0 stays."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + number if int(port) else 0}"
