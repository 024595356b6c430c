"""The container for testcontainers: its ports, its command, and the addresses for clients."""

from __future__ import annotations

import pytest

from sharebroker.testing import container
from sharebroker.testing.container import SharebrokerContainer, serve_options
from sharebroker_server.broker.commands.serve import serve
from tests.testkit.servers import docker_answers


class Engine:
    """Docker's client on a machine without Docker."""

    def __init__(self, **_: object) -> None: ...

    def host(self) -> str:
        return "docker.example"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> SharebrokerContainer:
    monkeypatch.setattr("testcontainers.core.container.DockerClient", Engine)
    return SharebrokerContainer("registry.example/sharebroker:1")


def test_kafka_port_is_bound_before_the_start(made: SharebrokerContainer) -> None:
    assert made.image == "registry.example/sharebroker:1"
    assert set(map(str, made.ports)) == {"9090", "9092"}
    assert made.ports["9092"]


def test_command_advertises_the_bound_port() -> None:
    options = serve_options("docker.example:32768")
    assert options[0] == serve.__name__
    assert "--kafka-advertise=docker.example:32768" in options
    assert "--grpc=0.0.0.0:9090" in options


def test_addresses_name_the_docker_host(made: SharebrokerContainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "get_container_host_ip", lambda: "docker.example")
    monkeypatch.setattr(made, "get_exposed_port", lambda port: {container.GRPC_PORT: 4711}[port])
    assert made.address == "docker.example:4711"
    assert made.kafka == f"docker.example:{made.ports['9092']}"


@pytest.mark.skipif(not docker_answers(), reason="no Docker engine")
def test_container_serves() -> None:
    from docker.errors import DockerException

    try:
        made = SharebrokerContainer().start()
    except DockerException as error:
        pytest.skip(f"the Docker engine has no such image (`make image`): {error}")
    try:
        from sharebroker import Admin

        with Admin(made.address) as admin:
            assert admin.create_topic("t").partitions
    finally:
        made.stop()
