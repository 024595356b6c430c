"""Rules for everything that the chart renders; they read `golden`, so that helm is not needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import redis
import typer
from typer.core import TyperGroup as Group
from typer.main import get_command

from sharebroker_server.broker.commands.serve import serve
from sharebroker_server.broker.observability import LIVE, READY, STARTED
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.core.keda_trigger import Trigger, trigger_of
from sharebroker_server.pipeline.command import app as pipeline
from tests.deploy.chart import CASES, Manifest, golden, manifests, pods
from tests.testkit.brokers import one_process
from tests.testkit.servers import running

ALL = {case.stem: manifests(golden(case).read_text()) for case in CASES}
PODS = [pytest.param(spec, id=f"{case} {name}") for case in ALL for name, spec in pods(ALL[case])]
ROLES = {"gateway", "group-coordinator", "share-partition-leader", "share-coordinator"}

every_pod = pytest.mark.parametrize("pod", PODS)


def find(case: str, kind: str, name: str) -> Manifest:
    """Returns one object of a case."""
    return next(one for one in ALL[case] if (one["kind"], one["metadata"]["name"]) == (kind, name))


@every_pod
def test_pods_satisfy_the_restricted_profile(pod: Manifest) -> None:
    """Kubernetes' pod security standard "restricted", and no writable file system."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@every_pod
def test_pods_get_no_token_and_no_variables_of_services(pod: Manifest) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False


@every_pod
def test_images_have_tags_and_memory_limits(pod: Manifest) -> None:
    for container in pod["containers"]:
        assert container["image"].rpartition(":")[2] not in ("", "latest")
        assert "memory" in container["resources"]["limits"]


def brokers(case: str) -> Iterator[tuple[str, Manifest]]:
    """Returns the pods of our roles."""
    for one in ALL[case]:
        role = one["metadata"]["labels"].get("app.kubernetes.io/component")
        if one["kind"] in ("Deployment", "StatefulSet") and role in ROLES:
            yield role, one["spec"]["template"]["spec"]


@pytest.mark.parametrize("case", ALL)
def test_every_role_runs_with_three_probes(case: str) -> None:
    found = dict(brokers(case))
    assert set(found) == ROLES
    for pod in found.values():
        container = pod["containers"][0]
        paths = [
            container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")
        ]
        assert paths == [STARTED, READY, LIVE]


@pytest.mark.parametrize("case", ALL)
def test_serve_accepts_the_rendered_options(case: str) -> None:
    app = typer.Typer()
    app.command()(serve)
    known = {name for option in get_command(app).params for name in option.opts}
    for _, pod in brokers(case):
        command, *arguments = pod["containers"][0]["args"]
        assert command == "serve"
        assert {argument.partition("=")[0] for argument in arguments} <= known
        properties = [
            argument.removeprefix("--set=") for argument in arguments if argument.startswith("--set=")
        ]
        config = BrokerConfig.parse([one.replace("$(POD_INDEX)", "1") for one in properties])
        assert config.cluster_id in ("queues_sharebroker", "queues_queue")


@pytest.mark.parametrize("case", ALL)
def test_termination_grace_exceeds_the_hand_over(case: str) -> None:
    for _, pod in brokers(case):
        before = (
            pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        )
        assert pod["terminationGracePeriodSeconds"] > before + 3 + 10


def secrets(value: Any) -> Iterator[str]:
    """Yields the names of the Secrets that a value refers to."""
    if isinstance(value, dict):
        if "secretKeyRef" in value:
            yield value["secretKeyRef"]["name"]
        for inner in value.values():
            yield from secrets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from secrets(inner)


def test_passwords_come_only_from_secrets() -> None:
    assert set(secrets(ALL["production"])) == {"redis-url", "sharebroker-admin"}
    assert set(secrets(ALL["nodeport"])) == {"valkey"}
    assert set(secrets(ALL["loadbalancer"])) == {"first-user"}


def test_generated_secrets_are_the_certificate_and_the_first_password() -> None:
    made = {
        case: {one["metadata"]["name"] for one in objects if one["kind"] == "Secret"}
        for case, objects in ALL.items()
    }
    assert made["defaults"] == {"sharebroker-tls", "sharebroker-admin"}
    assert made["loadbalancer"] == {"sharebroker-tls"}
    assert made["encrypted"] == {"sharebroker-admin"}
    assert not made["workers"]


ARROWS = {
    ("gateway", "group-coordinator"),
    ("gateway", "share-partition-leader"),
    ("gateway", "share-coordinator"),
    ("group-coordinator", "share-partition-leader"),
    ("group-coordinator", "share-coordinator"),
    ("share-partition-leader", "group-coordinator"),
    ("share-partition-leader", "share-coordinator"),
}


def component(peer: Manifest) -> str:
    return str(peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"])


def test_network_policies_match_the_diagram() -> None:
    into, out = set(), set()
    for role in ROLES:
        spec = find("production", "NetworkPolicy", f"sharebroker-{role}")["spec"]
        into |= {
            (component(peer), role)
            for rule in spec["ingress"]
            for peer in rule["from"]
            if {"port": "grpc"} in rule["ports"] and "podSelector" in peer
        }
        out |= {(role, component(peer)) for rule in spec["egress"] for peer in rule.get("to", ())}
    assert into - {("test", "gateway"), ("pipeline", "gateway")} == ARROWS
    assert out == ARROWS


def test_scaler_accepts_the_rendered_keda_metadata() -> None:
    triggers = {
        one["metadata"]["name"]: one["spec"]["triggers"][0]
        for one in ALL["workers"]
        if one["kind"] == "ScaledObject"
    }
    read = {name: trigger_of(trigger["metadata"]) for name, trigger in triggers.items()}
    assert read == {"billing": Trigger("billing", "orders", 500, 0), "mail": Trigger("mail", "", 100, 0)}
    assert {trigger["metadata"]["scalerAddress"] for trigger in triggers.values()} == {
        "queue.queues.svc:9090"
    }


def test_keda_uses_a_name_in_the_certificates() -> None:
    """KEDA verifies the host of the address; the README's certificate is for that one."""
    (scaled,) = (one for one in ALL["encrypted"] if one["kind"] == "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["metadata"]["enableTLS"] == "true"
    host, _, _ = trigger["metadata"]["scalerAddress"].partition(":")
    for _, pod in brokers("encrypted"):
        assert f"--tls-server-name={host}" in pod["containers"][0]["args"]


def test_each_gateway_has_its_own_external_address() -> None:
    services = [one for one in ALL["nodeport"] if one.get("spec", {}).get("type") == "NodePort"]
    ports = {
        one["spec"]["selector"]["apps.kubernetes.io/pod-index"]: one["spec"]["ports"][0]["nodePort"]
        for one in services
    }
    assert ports == {"0": 30090, "1": 30091, "2": 30092}
    gateway = find("nodeport", "StatefulSet", "sharebroker-gateway")["spec"]["template"]["spec"]
    arguments = gateway["containers"][0]["args"]
    assert "--kafka-advertise=$(HOST_IP):3009$(POD_INDEX)" in arguments
    assert "--set=node.id=$(POD_INDEX)" in arguments


def test_external_names_contain_the_gateways_number() -> None:
    hostname = "external-dns.alpha.kubernetes.io/hostname"
    names = [
        find("loadbalancer", "Service", f"sharebroker-kafka-{number}")["metadata"]["annotations"][hostname]
        for number in range(4)
    ]
    assert names == [f"kafka-{number}.example.com" for number in range(4)]


def test_built_in_valkey_has_the_documented_durability() -> None:
    valkey = find("defaults", "StatefulSet", "sharebroker-valkey")["spec"]["template"]["spec"]["containers"][
        0
    ]
    program, *options = valkey["args"]
    at = options.index("--dir")
    del options[at : at + 2]
    assert program == "valkey-server"
    with running("valkey", *options) as server, redis.Redis.from_url(server.url) as client:
        names = ("appendonly", "appendfsync", "save", "maxmemory-policy")
        assert [client.config_get(name)[name] for name in names] == ["yes", "always", "", "noeviction"]


def test_loading_valkey_is_live_and_not_ready() -> None:
    """Valkey responds with an error then, for which valkey-cli exits with 1 only with `-e`."""
    (container,) = find("defaults", "StatefulSet", "sharebroker-valkey")["spec"]["template"]["spec"][
        "containers"
    ]
    resources = {
        probe: container[f"{probe}Probe"]["exec"]["command"] for probe in ("startup", "readiness", "liveness")
    }
    assert resources == {
        "startup": ["valkey-cli", "ping"],
        "readiness": ["valkey-cli", "-e", "ping"],
        "liveness": ["valkey-cli", "ping"],
    }


def test_helm_test_finds_records_again(tmp_path: Path) -> None:
    container = find("defaults", "Pod", "sharebroker-test")["spec"]["containers"][0]
    script = container["args"][0].replace("/tmp/", f"{tmp_path}/")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with one_process() as cluster:
        environment = {**os.environ, "PATH": path, "SHAREBROKER_SERVER": cluster.address}
        done = subprocess.run(
            [*container["command"], script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    assert done.returncode == 0, done.stderr
    assert "Deleted topic" in done.stderr


def test_ingress_passes_tls_through_to_the_named_gateway() -> None:
    rules = find("encrypted", "Ingress", "sharebroker-kafka")["spec"]["rules"]
    backends = {rule["host"]: rule["http"]["paths"][0]["backend"]["service"] for rule in rules}
    assert backends == {
        f"kafka-{index}.example.com": {"name": f"sharebroker-kafka-{index}", "port": {"name": "kafka"}}
        for index in (0, 1)
    }
    for role, pod in brokers("encrypted"):
        container = pod["containers"][0]
        options = dict(one.partition("=")[::2] for one in container["args"])
        assert ("--kafka-advertise" in options) == (role == "gateway")
        assert options.get("--kafka-advertise", "kafka-$(POD_INDEX).example.com:443") == (
            "kafka-$(POD_INDEX).example.com:443"
        )
        (mount,) = (one["mountPath"] for one in container["volumeMounts"] if one["name"] == "tls")
        assert all(options[f"--tls-{one}"].startswith(f"{mount}/") for one in ("cert", "key", "ca"))


def test_every_pod_verifies_the_same_server_name() -> None:
    (test,) = (one for one in ALL["encrypted"] if one["kind"] == "Pod")
    server, password = test["spec"]["containers"][0]["env"]
    assert password["valueFrom"]["secretKeyRef"] == {"name": "sharebroker-admin", "key": "password"}
    parts = urlsplit(server["value"])
    query = dict(parse_qsl(parts.query))
    for _, pod in brokers("encrypted"):
        assert f"--tls-server-name={query['name']}" in pod["containers"][0]["args"]


def test_the_pipeline_is_a_client_with_a_volume() -> None:
    job = find("pipeline", "CronJob", "sharebroker-pipeline")["spec"]
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert job["concurrencyPolicy"] == "Forbid"
    assert container["args"][:3] == ["pipeline", "run", "/etc/sharebroker/project"]
    group = get_command(pipeline)
    assert isinstance(group, Group)
    known = {name for option in group.commands["run"].params for name in option.opts}
    assert {one.partition("=")[0] for one in container["args"][3:]} <= known
    (folder,) = (one["mountPath"] for one in container["volumeMounts"] if one["name"] == "folder")
    assert f"--folder={folder}/pipeline" in container["args"]
    (volume,) = (one for one in pod["volumes"] if one["name"] == "folder")
    claim = find("pipeline", "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
