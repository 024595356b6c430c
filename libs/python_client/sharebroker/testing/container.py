"""A server in a container, for testcontainers (`pip install testcontainers`)."""

from __future__ import annotations

import socket
from importlib.metadata import version
from typing import Any, Final, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import ExecWaitStrategy

DEFAULT_IMAGE: Final = f"sharebroker:{version('sharebroker')}"
GRPC_PORT: Final = 9090
KAFKA_PORT: Final = 9092


class SharebrokerContainer(DockerContainer):
    """A container with a server, whose data ends with it.

    `make image` builds the default image.
    """

    def __init__(self, image: str = DEFAULT_IMAGE, **options: Any) -> None:
        """`options` are those of testcontainers' DockerContainer."""
        super().__init__(image, **options)
        # Kafka clients connect to the advertised address, so its port has to be known before the start.
        self._kafka_port = _free_port()
        self.with_exposed_ports(GRPC_PORT)
        self.with_bind_ports(KAFKA_PORT, self._kafka_port)
        self.waiting_for(ExecWaitStrategy(["sharebroker", "probe", "ready"]))

    def start(self) -> Self:
        """Starts the container and waits until the server is ready."""
        self.with_command(serve_options(self.kafka))
        super().start()
        return self

    @property
    def address(self) -> str:
        """The `host:port` for this client and for gRPC."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(GRPC_PORT)}"

    @property
    def kafka(self) -> str:
        """The `host:port` for Kafka clients."""
        return f"{self.get_docker_client().host()}:{self._kafka_port}"


def serve_options(advertised: str) -> list[str]:
    """Returns the container's command; `advertised` is the address that Kafka clients receive."""
    return [
        "serve",
        "--data=/var/lib/sharebroker",
        f"--grpc=0.0.0.0:{GRPC_PORT}",
        f"--kafka=0.0.0.0:{KAFKA_PORT}",
        f"--kafka-advertise={advertised}",
        "--fsync=everysec",
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
