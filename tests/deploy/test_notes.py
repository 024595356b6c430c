"""The notes that `helm install` prints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart import CHART, HELM, KUBERNETES, NO_HELM, helm

pytestmark = pytest.mark.skipif(HELM is None, reason=NO_HELM)

TLS = "tls.secret=certificate,tls.clientAuth=required"
BY_NAME = "kafka.external.advertise=kafka-$(POD_INDEX).example.com:443"


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provides the chart with its notes in an object: without a cluster helm does not print them."""
    folder = shutil.copytree(CHART, tmp_path_factory.mktemp("chart") / "sharebroker")
    shutil.copy(folder / "templates" / "NOTES.txt", folder / "files" / "NOTES.txt")
    (folder / "templates" / "notes.yaml").write_text(
        '{{ dict "notes" (tpl (.Files.Get "files/NOTES.txt") .) | toJson }}\n'
    )
    return folder


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            "",
            [
                "statefulset/sharebroker-gateway",
                "gRPC   sharebroker.queues:9090",
                "Kafka  sharebroker.queues:9092",
                "exec -it deployment/sharebroker-group-coordinator -- sharebroker users add alice",
                "The password of admin",
            ],
        ),
        (
            "kafka.external.type=NodePort",
            ["statefulset/", "from outside: NODE:31090 to NODE:31091, NODE as shown by kubectl"],
        ),
        ("kafka.external.type=NodePort,roles.gateway.replicas=1", ["from outside: NODE:31090, NODE as"]),
        (
            f"kafka.external.type=LoadBalancer,{BY_NAME}",
            [
                "kafka-0.example.com:443 to kafka-1.example.com:443, which must resolve to Services "
                "sharebroker-kafka-0 to sharebroker-kafka-1\n"
            ],
        ),
        (
            f"kafka.external.type=ClusterIP,kafka.external.ingress.className=nginx,{BY_NAME},{TLS}",
            [
                "must resolve to Ingress sharebroker-kafka\n",
                "of Secret certificate; clients need a certificate",
            ],
        ),
        ("service.type=LoadBalancer", ["from outside: kubectl -n queues get service sharebroker\n"]),
        ("redis.builtIn.persistence.enabled=false", ["It has no volume"]),
        (
            "networkPolicy.clients[0].podSelector.matchLabels.uses=queues,auth.enabled=false,"
            "keda.scaledObjects[0].name=a,"
            "keda.scaledObjects[0].group=b,keda.scaledObjects[0].target.name=c",
            [
                "Add KEDA's operator to networkPolicy.clients",
                "Every client that can connect may do everything",
            ],
        ),
        (
            "networkPolicy.restrictEgress=true,env.OTEL_EXPORTER_OTLP_ENDPOINT=http://jaeger:4317",
            ["Spans cannot leave the pods", "does not permit http://jaeger:4317."],
        ),
    ],
)
def test_notes_show_addresses_and_missing_settings(chart: Path, values: str, expected: list[str]) -> None:
    done = helm(
        *("template", "sharebroker", str(chart), "--namespace=queues", f"--kube-version={KUBERNETES}"),
        *("--show-only=templates/notes.yaml", f"--set={values}"),
    )
    assert done.returncode == 0, done.stderr
    (notes,) = (one["notes"] for one in yaml.safe_load_all(done.stdout) if one)
    assert all(one in notes for one in expected), notes
    assert "$(" not in notes
    assert "<no value>" not in notes


def test_notes_without_kafka_omit_its_port(chart: Path) -> None:
    done = helm("template", "a", str(chart), "--show-only=templates/notes.yaml", "--set=kafka.enabled=false")
    assert "9092" not in done.stdout
