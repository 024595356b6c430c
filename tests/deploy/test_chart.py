"""The Helm chart: what it renders, what the Kubernetes API will take, what it refuses.

What is rendered lies in `golden`; `make chart` writes it anew.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.chart import (
    CASES,
    CHART,
    HELM,
    KUBERNETES,
    NO_HELM,
    NO_TOOLS,
    TOOLS,
    golden,
    helm,
    rendered,
    template,
)
from tests.deploy.settings_schema import SCHEMA, with_settings
from tests.deploy.values_table import README, with_table

needs_helm = pytest.mark.skipif(HELM is None, reason=NO_HELM)
case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)


@needs_helm
@case
def test_renders_what_is_written_down(case: Path) -> None:
    assert rendered(case) == golden(case).read_text(), "`make chart`, and look at the difference"


@needs_helm
@case
def test_lint_is_clean(case: Path) -> None:
    done = helm("lint", "--strict", f"--kube-version={KUBERNETES}", f"--values={case}", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not TOOLS.exists(), reason=NO_TOOLS)
@pytest.mark.parametrize("version", ["1.32", "1.34", "1.37"])
def test_kubernetes_knows_every_field(version: str) -> None:
    command = [str(TOOLS), "-m", "kubernetes_validate", "-k", version, "--strict", "--quiet", "--no-warn"]
    done = subprocess.run(
        [*command, *(str(golden(case)) for case in CASES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("nope=1", "'nope' not allowed"),
        ("roles.gatway.replicas=2", "'/roles': additional properties 'gatway' not allowed"),
        ("roles.gateway.replicas=0", "'/roles/gateway/replicas': minimum"),
        ("roleDefaults.spread=Maybe", "'/roleDefaults/spread': value must be one of"),
        ("image.tag=latest", "'/image/tag'"),
        ("probes.liveness.periodSeconds=0", "'/probes/liveness/periodSeconds': minimum"),
        ("kafka.external.nodePort=31091", "'/kafka/external/nodePort': multipleOf"),
        ("redis.url=http://redis", "'/redis/url'"),
        ("redis.builtIn.enabled=false,redis.url=redis://:secret@redis", "'/redis/url'"),
        ("redis.builtIn.enabled=false,redis.urlSecret.name=A_B", "'/redis/urlSecret/name'"),
        ("redis.builtIn.image=valkey/valkey:latest", "'/redis/builtIn/image'"),
        ("image.repository=sharebroker:0.2", "'/image/repository'"),
        (
            r"settings.message\.maxbytes=1",
            "'/settings': additional properties 'message.maxbytes' not allowed",
        ),
        (r"settings.message\.max\.bytes=-5", "'/settings/message.max.bytes': minimum"),
        (r"settings.log\.level=loud", "'/settings/log.level': value must be one of"),
        (r"settings.cluster\.id=a", "'/settings': additional properties 'cluster.id' not allowed"),
        (r"roles.gateway.settings.node\.id=1", "'/roles/gateway/settings': additional properties 'node.id'"),
        (r"features.share\.version=2", "'/features/share.version': maximum"),
        ("roleDefaults.resources.limits.memory=512m", "'/roleDefaults/resources/limits/memory'"),
        ("roleDefaults.resources.requests.cpu=some", "'/roleDefaults/resources/requests/cpu'"),
        ("roleDefaults.extraEnv[0].nam=a", "'/roleDefaults/extraEnv/0': missing property 'name'"),
        (r"roleDefaults.podLabels.app\.kubernetes\.io/component=a", "'/roleDefaults/podLabels/app.kub"),
        ("networkPolicy.clients[0].namespace=a", "'/networkPolicy/clients/0': additional properties"),
        ("pipeline.schedule=nightly", "'/pipeline/schedule'"),
        ("env.lower=1", "'/env': additional properties 'lower' not allowed"),
        ("keda.scaledObjects[0].name=a", "'/keda/scaledObjects/0': missing properties"),
        ("redis.url=redis://elsewhere", "redis.builtIn.enabled must be false"),
        ("redis.builtIn.enabled=false", "redis.url or redis.urlSecret.name is needed"),
        ("kafka.external.type=LoadBalancer", "kafka.external.advertise is needed"),
        (
            "redis.builtIn.enabled=false,redis.url=redis://a,redis.urlSecret.name=b",
            "redis.url and redis.urlSecret.name both say",
        ),
        ("roles.gateway.preStopSeconds=20", "roles.gateway.terminationGracePeriodSeconds must be 35 or more"),
        (
            "roles.gateway.autoscaling.enabled=true,roles.gateway.autoscaling.minReplicas=7",
            "roles.gateway.autoscaling.minReplicas is more than maxReplicas",
        ),
        (
            "roleDefaults.autoscaling.enabled=true,roleDefaults.resources.requests.cpu=null",
            "roles.gateway.resources.requests.cpu is needed",
        ),
        ("tls.clientAuth=required", "tls.secret is needed where tls.clientAuth is required"),
        ("kafka.enabled=false,kafka.external.type=NodePort", "kafka.enabled must be true"),
        (
            "kafka.external.type=LoadBalancer,kafka.external.advertise=kafka:9092",
            "kafka.external.advertise needs $(POD_INDEX): each gateway",
        ),
        (
            "keda.scaledObjects[0].name=a,keda.scaledObjects[0].target.name=b,keda.scaledObjects[0].group=c,"
            "keda.scaledObjects[0].minReplicas=11",
            "minReplicas of a is more than maxReplicas",
        ),
        ("pipeline.topic=a/b", "'/pipeline/topic'"),
        ("tls.clientAuth=requested", "'/tls/clientAuth': value must be one of"),
        (
            "kafka.external.type=NodePort,kafka.external.ingress.className=a",
            "for kafka.external.type ClusterIP",
        ),
        (
            "kafka.external.type=ClusterIP,kafka.external.advertise=k$(POD_INDEX):1,kafka.external.ingress.className=a",
            "tls.secret is needed",
        ),
        ("kafka.external.type=NodePort,roles.gateway.replicas=11", "at most 10 gateways"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(wrong: str, said: str) -> None:
    done = template(f"--set={wrong}")
    assert done.returncode != 0
    assert said in done.stderr


@needs_helm
def test_old_kubernetes_is_refused() -> None:
    done = template("--kube-version=1.29.0")
    assert "requires kubeVersion" in done.stderr


@needs_helm
@pytest.mark.parametrize(
    ("release", "name"),
    [("sharebroker", "sharebroker"), ("my-sharebroker", "my-sharebroker"), ("two", "two-sharebroker")],
)
def test_names_begin_with_the_release(release: str, name: str) -> None:
    done = template("--show-only=templates/services.yaml", release=release)
    assert f"name: {name}\n" in done.stdout


def test_the_schema_knows_the_servers_properties_and_features() -> None:
    assert SCHEMA.read_text() == with_settings(SCHEMA.read_text()), "`make chart` writes it anew"


@needs_helm
@pytest.mark.parametrize("url", ["redis://h", "rediss://h:1/2", r"redis://a:1\,b:2", "redis://[::1]:6379"])
def test_addresses_of_redis_are_taken(url: str) -> None:
    assert f'value: "{url.replace(chr(92), "")}"' in (
        template(f"--set=redis.builtIn.enabled=false,redis.url={url}").stdout
    )


def test_every_value_is_in_the_readme() -> None:
    assert README.read_text() == with_table(README.read_text()), "`make chart` writes it anew"
