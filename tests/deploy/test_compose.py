"""docker-compose.yml: the services of `docker compose up`. Only a Docker engine can show that they start."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Final

import pytest
import yaml

from sharebroker_server.kafka_client.settings import upstream_settings
from sharebroker_server.routing.router import ROLES
from tests.architecture.sources import ROOT

COMPOSE: Final = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
BROKERS: Final = [name for name, one in SERVICES.items() if "serve" in one.get("command", ())]

every_service = pytest.mark.parametrize("name", SERVICES)


@every_service
def test_images_are_named_by_a_release(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9./-]+:v?\d[\w.-]*", SERVICES[name]["image"])


@every_service
def test_ports_are_published_on_loopback_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", ()))


def test_no_port_is_published_twice() -> None:
    ports = list(chain.from_iterable(one.get("ports", ()) for one in SERVICES.values()))
    published = [port.rpartition(":")[0] for port in ports]
    assert len(set(published)) == len(published)


def test_every_role_runs_once_and_twice_with_the_profile() -> None:
    usual = {name for name in BROKERS if "profiles" not in SERVICES[name]}
    twice = {name for name in BROKERS if SERVICES[name].get("profiles") == ["ha"]}
    assert usual == set(ROLES)
    assert twice == {f"{role}-2" for role in ROLES}
    assert usual | twice == set(BROKERS)
    assert all(f"--roles={name.removesuffix('-2')}" in SERVICES[name]["command"] for name in BROKERS)


@pytest.mark.parametrize("name", BROKERS)
def test_brokers_wait_for_redis_and_report_readiness(name: str) -> None:
    broker = SERVICES[name]
    assert broker["depends_on"] == {"valkey": {"condition": "service_healthy"}}
    assert broker["healthcheck"]["test"] == ["CMD", "sharebroker", "probe", "ready"]
    assert "--redis=redis://valkey:6379" in broker["command"]
    assert broker["read_only"] is True
    assert broker["cap_drop"] == ["ALL"]


def test_acknowledged_writes_are_on_disk() -> None:
    command = SERVICES["valkey"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--appendfsync"] == "always"
    assert options["--maxmemory-policy"] == "noeviction"


def test_brokers_wait_while_valkey_loads_its_file() -> None:
    """Valkey responds with an error then, for which valkey-cli exits with 1 only with `-e`."""
    check = SERVICES["valkey"]["healthcheck"]
    assert check["test"] == ["CMD", "valkey-cli", "-e", "ping"]
    assert check["start_period"] == "10m"


@every_service
def test_compose_health_check_exists(name: str) -> None:
    assert "disable" not in SERVICES[name].get("healthcheck", {}), "`up --wait` fails at such a container"


@every_service
def test_mounted_files_exist(name: str) -> None:
    for volume in SERVICES[name].get("volumes", ()):
        source = volume.partition(":")[0]
        assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]


def test_dashboard_series_link_to_their_traces() -> None:
    """Panel links lead to Grafana's Explore, which is for editors; since version 12 viewers cannot be
    given it.
    """
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Editor"
    (provider,) = yaml.safe_load((ROOT / "deploy/compose/grafana/dashboards/sharebroker.yml").read_text())[
        "providers"
    ]
    assert not provider.get("allowUiUpdates", False)


def test_prometheus_scrapes_every_broker() -> None:
    (job,) = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text())["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert set(found["names"]) == set(BROKERS)
    assert found["port"] == 9100


def test_the_override_adds_another_kafka_cluster_to_every_broker() -> None:
    override = yaml.safe_load((ROOT / "deploy/compose/upstream.yml").read_text())["services"]
    file = "/etc/sharebroker/upstream.properties"
    options = ["--log=kafka://${UPSTREAM:?}", f"--upstream-config={file}"]
    assert {name: one["command"] for name, one in override.items()} == {
        name: [*SERVICES[name]["command"], *options] for name in BROKERS
    }
    assert {volume.rpartition("}:")[2] for one in override.values() for volume in one["volumes"]} == {
        f"{file}:ro"
    }


def test_the_overrides_properties_are_accepted() -> None:
    settings = upstream_settings(ROOT / "deploy/compose/upstream.properties", "b1:9092,b2:9092")
    assert settings.addresses == "b1:9092,b2:9092"
