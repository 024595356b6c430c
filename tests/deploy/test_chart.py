"""The Helm chart: the rendered manifests, and the values that the schema accepts and rejects.

`golden` has the rendered manifests; `make chart` regenerates them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.tracing.settings import parse
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
    manifests,
    rendered,
    template,
)
from tests.deploy.settings_schema import ORDER, SCHEMA, TRACING, order, with_settings
from tests.deploy.values_table import README, VALUES, with_comments, with_table

_VALIDATE = """
import functools, sys, yaml
from kubernetes_validate import __main__, utils
utils.schema_contents = functools.cache(utils.schema_contents)
yaml.SafeLoader = yaml.CSafeLoader
sys.exit(__main__.main())
"""
"""The program kubernetes-validate, which would parse a version's schemas again for every manifest, and parse
manifests in Python.
"""

needs_helm = pytest.mark.skipif(HELM is None, reason=NO_HELM)
case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)


@needs_helm
@case
def test_rendered_chart_matches_the_golden_files(case: Path) -> None:
    assert rendered(case) == golden(case).read_text(), "`make chart`, and look at the difference"


@needs_helm
@case
def test_lint_is_clean(case: Path) -> None:
    done = helm("lint", "--strict", f"--kube-version={KUBERNETES}", f"--values={case}", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not TOOLS.exists(), reason=NO_TOOLS)
@pytest.mark.parametrize("version", ["1.30", "1.32", "1.34", "1.37"])
def test_manifests_pass_the_kubernetes_schema(version: str) -> None:
    command = [str(TOOLS), "-c", _VALIDATE, "-k", version, "--strict", "--quiet", "--no-warn"]
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
    ("wrong", "message"),
    [
        ("nope=1", "'nope' not allowed"),
        ("roles.gatway.replicas=2", "'/roles': additional properties 'gatway' not allowed"),
        ("roles.gateway.replicas=0", "'/roles/gateway/replicas': minimum"),
        ("roleDefaults.spread=Maybe", "'/roleDefaults/spread': value must be one of"),
        ("image.tag=latest", "'/image/tag'"),
        ("probes.liveness.periodSeconds=0", "'/probes/liveness/periodSeconds': minimum"),
        ("kafka.external.nodePort=31091", "'/kafka/external/nodePort': multipleOf"),
        ("redis.url=http://redis", "'/redis/url'"),
        ("redis.builtIn.enabled=false,redis.url=redis+sentinel://a:26379", "'/redis/url'"),
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
        (r"features.share\.version=3", "'/features/share.version': maximum"),
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
            "redis.url and redis.urlSecret.name are both set",
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
        ("tls.generate=false", "auth.enabled needs TLS (tls.secret or tls.generate)"),
        (
            "keda.scaledObjects[0].name=a,keda.scaledObjects[0].target.name=b,keda.scaledObjects[0].group=c",
            "keda.scaledObjects needs tls.clientAuth: required",
        ),
        ("auth.mechanisms={GSSAPI}", "'/auth/mechanisms/0': value must be one of"),
        ("auth.mechanisms=null", "'/auth': missing property 'mechanisms'"),
        ("auth.superUsers={alice}", "'/auth/superUsers/0'"),
        ("auth.admin.user=a b", "'/auth/admin/user'"),
        (r"settings.super\.users=User:a", "'/settings': additional properties 'super.users' not allowed"),
        ("kafka.enabled=false,kafka.external.type=NodePort", "kafka.enabled must be true"),
        (
            "kafka.external.type=LoadBalancer,kafka.external.advertise=kafka:9092",
            "kafka.external.advertise needs $(POD_INDEX): each gateway",
        ),
        (
            "keda.scaledObjects[0].name=a,keda.scaledObjects[0].target.name=b,keda.scaledObjects[0].group=c,"
            "keda.scaledObjects[0].minReplicas=11,auth.enabled=false",
            "minReplicas of a is more than maxReplicas",
        ),
        ("pipeline.topic=a/b", "'/pipeline/topic'"),
        ("tls.clientAuth=requested", "'/tls/clientAuth': value must be one of"),
        (
            "kafka.external.type=NodePort,kafka.external.ingress.className=a",
            "for kafka.external.type ClusterIP",
        ),
        (
            "kafka.external.type=ClusterIP,kafka.external.advertise=k$(POD_INDEX):1,kafka.external.ingress.className=a,"
            "auth.enabled=false,tls.generate=false",
            "tls.secret or tls.generate is needed",
        ),
        ("kafka.external.type=NodePort,roles.gateway.replicas=11", "at most 10 gateways"),
        (
            "kafka.external.type=NodePort,kafka.external.nodePort=32760,roles.gateway.replicas=9",
            "kafka.external.nodePort: the last of 9 gateways would have port 32768",
        ),
        ("kafka.external.advertise=k-$(POD_INDEX):99999", "'/kafka/external/advertise'"),
        ("kafka.external.advertise=k-$(POD_INDEX):http", "'/kafka/external/advertise'"),
        ("kafka.external.advertise=k-$(POD_INDEX):0", "'/kafka/external/advertise'"),
        (
            "kafka.external.type=LoadBalancer,kafka.external.advertise=k:909$(POD_INDEX),"
            "roles.gateway.replicas=11",
            "kafka.external.advertise: a port that ends in $(POD_INDEX)",
        ),
        (
            r"settings.group\.share\.record\.lock\.duration\.ms=120000",
            "lock.duration.ms=120000 <= group.share.max.record.lock.duration.ms=60000 does not hold",
        ),
        (
            r"roles.gateway.settings.group\.share\.heartbeat\.interval\.ms=50000,"
            r"settings.group\.share\.max\.heartbeat\.interval\.ms=50000",
            "settings of gateway: group.share.heartbeat.interval.ms=50000 < group.share.session",
        ),
        ("env.OTEL_TRACES_SAMPLER=foo", "'/env/OTEL_TRACES_SAMPLER': value must be one of"),
        ("env.OTEL_TRACES_SAMPLER_ARG=1.5", "'/env/OTEL_TRACES_SAMPLER_ARG'"),
        ("env.OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317", "'/env/OTEL_EXPORTER_OTLP_ENDPOINT'"),
        ("env.OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "'/env/OTEL_EXPORTER_OTLP_PROTOCOL'"),
        ("env.OTEL_BSP_MAX_QUEUE_SIZE=0", "'/env/OTEL_BSP_MAX_QUEUE_SIZE': minimum"),
        (
            "monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true",
            "monitoring.podMonitor and monitoring.serviceMonitor are both enabled",
        ),
        ("env.POD_IP=1.2.3.4", "env.POD_IP is a variable that the chart sets itself"),
        ("tls.serverName=a b", "'/tls/serverName'"),
        ("fullnameOverride=1a", "'/fullnameOverride'"),
        ("redis.builtIn.persistence.size=8K", "'/redis/builtIn/persistence/size'"),
        ("monitoring.podMonitor.interval=15", "'/monitoring/podMonitor/interval'"),
        ("monitoring.podMonitor.interval=1s1m", "'/monitoring/podMonitor/interval'"),
        ("networkPolicy.clients[0].podSelector.matchLabel.a=b", "'/networkPolicy/clients/0/podSelector'"),
        ("networkPolicy.monitoring[0].ipBlock.cidr=10.0.0.1", "'/networkPolicy/monitoring/0/ipBlock/cidr'"),
        (
            "roleDefaults.extraEnv[0].name=A,roleDefaults.extraEnv[0].valueFrom.secretKeyRef.name=b",
            "'/roleDefaults/extraEnv/0/valueFrom/secretKeyRef': missing property 'key'",
        ),
        ("roleDefaults.affinity.nodeAffinity.required=null", "'/roleDefaults/affinity/nodeAffinity'"),
        (
            "roleDefaults.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topology=a",
            "'/roleDefaults/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0'",
        ),
        (
            "roles.gateway.extraContainers[0].name=a,roles.gateway.extraContainers[0].image=a:1,"
            "roles.gateway.extraContainers[0].volumes[0].name=b",
            "'/roles/gateway/extraContainers/0'",
        ),
        ("image.digest=sha256:abc", "'/image/digest'"),
        ("image.repository=sharebroker@sha256", "'/image/repository'"),
        ("redis=null", "missing property 'redis'"),
        ("tls=null", "missing property 'tls'"),
        ("upstream=null", "missing property 'upstream'"),
        ("upstream.key=null", "'/upstream': missing property 'key'"),
        ("upstream.bootstrap=kafka://a:9092", "'/upstream/bootstrap'"),
        ("upstream.secret=a", "upstream.secret needs upstream.bootstrap"),
        ("upstream.proxy=true", "upstream.proxy needs upstream.bootstrap"),
        (
            "upstream.bootstrap=a:9092,upstream.secret=b,"
            "roles.gateway.extraVolumes[0].name=upstream,roles.gateway.extraVolumes[0].hostPath.path=/tmp",
            "roles.gateway.extraVolumes: upstream is a volume of the chart's own",
        ),
        ("image.repository=null", "'/image': missing property 'repository'"),
        ("probes.startup=null", "'/probes': missing property 'startup'"),
        ("kafka.external=null", "'/kafka': missing property 'external'"),
        ("networkPolicy.enabled=null", "'/networkPolicy': missing property 'enabled'"),
        ("roleDefaults.autoscaling=null", "'/roleDefaults': missing property 'autoscaling'"),
        ("roleDefaults.autoscaling.maxReplicas=null", "'/roleDefaults/autoscaling': missing property"),
        ("pipeline.group= a", "'/pipeline/group'"),
        ("redis.url=redis://a:7000/b:7001", "'/redis/url'"),
        ("redis.url=redis://a:70000", "'/redis/url'"),
        ("redis.ports[0]=0", "'/redis/ports/0': minimum"),
        ("roleDefaults.tolerations[0].nonsense=a", "'/roleDefaults/tolerations/0': additional properties"),
        ("roleDefaults.affinity.nonsense=a", "'/roleDefaults/affinity': additional properties"),
        ("roleDefaults.extraEnvFrom[0].foo=a", "'/roleDefaults/extraEnvFrom/0': additional properties"),
        ("roleDefaults.extraEnvFrom[0].prefix=a", "'/roleDefaults/extraEnvFrom/0'"),
        ("roleDefaults.extraVolumes[0].name=a", "'/roleDefaults/extraVolumes/0'"),
        (
            "roleDefaults.extraVolumes[0].name=a,roleDefaults.extraVolumes[0].emptydir=null",
            "'/roleDefaults/extraVolumes/0'",
        ),
        (
            "roleDefaults.extraVolumeMounts[0].name=a,roleDefaults.extraVolumeMounts[0].path=b",
            "'/roleDefaults/extraVolumeMounts/0'",
        ),
        ("networkPolicy.extraEgress[0].ports[0].prt=1", "'/networkPolicy/extraEgress/0/ports/0'"),
        (
            "keda.scaledObjects[0].name=a,keda.scaledObjects[0].group=c,keda.scaledObjects[0].target.nam=b",
            "'/keda/scaledObjects/0/target'",
        ),
        (
            "roleDefaults.extraEnv[0].name=POD_IP",
            "roles.gateway.extraEnv: POD_IP is a variable that the chart sets itself",
        ),
        (
            "roles.gateway.extraVolumes[0].name=tmp,roles.gateway.extraVolumes[0].hostPath.path=/tmp",
            "roles.gateway.extraVolumes: tmp is a volume of the chart's own",
        ),
        (
            "roles.gateway.extraVolumeMounts[0].name=a,roles.gateway.extraVolumeMounts[0].mountPath=/tmp",
            "roles.gateway.extraVolumeMounts: at /tmp is a volume of the chart's own",
        ),
        (
            "roles.gateway.extraContainers[0].name=gateway,roles.gateway.extraContainers[0].image=a:1",
            "roles.gateway.extraContainers: gateway is the name of the chart's own",
        ),
    ],
)
def test_invalid_value_is_rejected_with_its_path(wrong: str, message: str) -> None:
    done = template(f"--set={wrong}")
    assert done.returncode != 0
    assert message in done.stderr


@needs_helm
def test_old_kubernetes_is_rejected() -> None:
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


def test_schema_covers_server_properties_and_features() -> None:
    assert SCHEMA.read_text() == with_settings(SCHEMA.read_text()), "run `make chart`"
    assert ORDER.read_text() == order(), "run `make chart`"


@pytest.mark.parametrize("name", TRACING)
def test_schema_rejects_the_same_tracing_values_as_the_server(name: str) -> None:
    base = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://jaeger:4317", "OTEL_METRICS_EXPORTER": "otlp"}
    schema = TRACING[name]
    wrong = [
        str(schema[bound] + more) for bound, more in (("minimum", -1), ("maximum", 1)) if bound in schema
    ]
    for value in wrong or ["foo"]:
        with pytest.raises(KafkaError, match=name):
            parse(base | {"OTEL_TRACES_SAMPLER": "traceidratio", name: value})


@needs_helm
@pytest.mark.parametrize(
    "url",
    [
        *("redis://h", "rediss://h:1/2", r"redis://a:1\,b:2", "redis://[::1]:6379"),
        *(r"redis+sentinel://a:1\,b/mymaster", "rediss+sentinel://a/m/2", "sentinel://a:1/m"),
    ],
)
def test_redis_addresses_are_accepted(url: str) -> None:
    assert f'value: "{url.replace(chr(92), "")}"' in (
        template(f"--set=redis.builtIn.enabled=false,redis.url={url}").stdout
    )


@needs_helm
@pytest.mark.parametrize(
    ("value", "ports"),
    [
        (r"redis.url=redis://a:7000\,b:7001\,c", {7000, 7001, 6379}),
        ("redis.url=redis://[::1]/2", {6379}),
        (r"redis.url=redis+sentinel://a:7000\,b/mymaster", {7000, 26379, 6379}),
        ("redis.url=sentinel://a/m/1,redis.port=7000", {7000, 26379}),
        ("redis.url=rediss://a:7000,redis.ports={7001,7000}", {7000, 7001}),
        ("redis.urlSecret.name=a,redis.port=7000", {7000}),
        ("redis.urlSecret.name=a,redis.port=7000,redis.ports={7001}", {7000, 7001}),
    ],
)
def test_egress_is_open_to_every_port_of_redis(value: str, ports: set[int]) -> None:
    done = template("--set=networkPolicy.restrictEgress=true,redis.builtIn.enabled=false", f"--set={value}")
    assert done.returncode == 0, done.stderr
    (policy,) = (
        one
        for one in manifests(done.stdout)
        if (one["kind"], one["metadata"]["name"]) == ("NetworkPolicy", "sharebroker-share-coordinator")
    )
    redis = next(rule for rule in policy["spec"]["egress"] if rule["ports"][0]["port"] != 53)
    assert sorted(port["port"] for port in redis["ports"]) == sorted(ports)


@needs_helm
@pytest.mark.parametrize(
    "value",
    [
        "kafka.external.type=NodePort,kafka.external.nodePort=32760,roles.gateway.replicas=8",
        "kafka.external.type=NodePort,kafka.external.advertise=$(HOST_IP):3109$(POD_INDEX)",
        r"settings.group\.share\.record\.lock\.duration\.ms=120000,"
        r"settings.group\.share\.max\.record\.lock\.duration\.ms=120000",
        "env.OTEL_TRACES_SAMPLER=parentbased_traceidratio,env.OTEL_TRACES_SAMPLER_ARG=0.01",
        "env.OTEL_EXPORTER_OTLP_ENDPOINT=http://jaeger:4317,env.OTEL_BSP_MAX_QUEUE_SIZE=2048",
        "roleDefaults.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=a",
        "roleDefaults.extraEnvFrom[0].secretRef.name=a,roleDefaults.extraEnv[0].name=SSL_CERT_FILE",
        "tls.serverName=queues.example.com",
        "redis.builtIn.persistence.size=1.5Ti,pipeline.persistence.size=500M",
        "monitoring.podMonitor.interval=1m30s,monitoring.podMonitor.enabled=true",
    ],
)
def test_valid_values_are_accepted(value: str) -> None:
    done = template(f"--set={value}")
    assert done.returncode == 0, done.stderr


@needs_helm
def test_group_name_is_rendered_unchanged() -> None:
    done = template("--set=pipeline.enabled=true,pipeline.group=my group: a #1")
    (job,) = (one for one in manifests(done.stdout) if one["kind"] == "Job")
    assert "--group=my group: a #1" in job["spec"]["template"]["spec"]["containers"][0]["args"]


def test_every_value_is_in_the_readme() -> None:
    assert README.read_text() == with_table(README.read_text()), "run `make chart`"


def test_every_value_has_a_description() -> None:
    text = VALUES.read_text()
    assert text == with_comments(text), "run `make chart`"
    assert "\n  # Tag of the image; default: the chart's appVersion.\n  tag:" in text
