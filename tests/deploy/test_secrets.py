"""The Secrets that the chart generates, and the upgrade of a release without authentication."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography import x509

from tests.deploy.api_server import cluster
from tests.deploy.chart import CHART, HELM, KUBERNETES, NO_HELM, OPEN, Manifest, helm, template

pytestmark = pytest.mark.skipif(HELM is None, reason=NO_HELM)

COORDINATOR: Final = "sharebroker-group-coordinator"


def secret(name: str, **data: str) -> Manifest:
    """Returns a Secret as it is stored."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def coordinator(**annotations: str) -> Manifest:
    """Returns the group coordinators as they run."""
    metadata = {"name": COORDINATOR, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


def generated(*arguments: str) -> dict[str, dict[str, str]]:
    """Returns the data of each generated Secret."""
    command = ("template", "sharebroker", str(CHART), "--namespace=queues", f"--kube-version={KUBERNETES}")
    done = helm(*command, "--show-only=templates/secrets.yaml", *arguments)
    assert done.returncode == 0, done.stderr
    objects: list[Any] = [one for one in yaml.safe_load_all(done.stdout) if one]
    return {one["metadata"]["name"]: one["data"] for one in objects}


def test_the_certificate_is_valid_for_every_name_in_the_cluster() -> None:
    data = generated()["sharebroker-tls"]
    certificate = x509.load_pem_x509_certificate(b64decode(data["tls.crt"]))
    authority = x509.load_pem_x509_certificate(b64decode(data["ca.crt"]))
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"sharebroker", "sharebroker.queues.svc", "*.sharebroker-headless.queues.svc"} <= set(
        names.get_values_for_type(x509.DNSName)
    )


def test_the_certificate_is_valid_for_the_advertised_names_of_gateways() -> None:
    advertise = "kafka.external.advertise=kafka-$(POD_INDEX).example.com:9092"
    data = generated(f"--set=kafka.external.type=LoadBalancer,{advertise}")["sharebroker-tls"]
    certificate = x509.load_pem_x509_certificate(b64decode(data["tls.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"kafka-0.example.com", "kafka-1.example.com"} <= set(names.get_values_for_type(x509.DNSName))


def test_the_first_password_is_random() -> None:
    first, second = (b64decode(generated()["sharebroker-admin"]["password"]) for _ in range(2))
    assert len(first) == 32
    assert first != second


def test_an_upgrade_keeps_the_generated_secrets(tmp_path: Path) -> None:
    kept = {"ca.crt": "QQ==", "tls.crt": "Qg==", "tls.key": "Qw=="}
    objects = [secret("sharebroker-tls", **kept), secret("sharebroker-admin", password="UA==")]
    with cluster(tmp_path, *objects) as kubeconfig:
        found = generated("--dry-run=server", kubeconfig)
    assert found == {"sharebroker-tls": kept, "sharebroker-admin": {"password": "UA=="}}


@pytest.mark.parametrize(
    ("option", "annotations", "rejected"),
    [
        pytest.param("", {}, True, id="an earlier chart, and the defaults"),
        pytest.param(OPEN, {}, False, id="an earlier chart, and values that keep it open"),
        pytest.param(
            "", {"sharebroker/authentication": "false"}, False, id="turned on by the second upgrade"
        ),
        pytest.param("", {"sharebroker/authentication": "true"}, False, id="on before"),
    ],
)
def test_an_upgrade_does_not_turn_authentication_on_by_default(
    tmp_path: Path, option: str, annotations: dict[str, str], rejected: bool
) -> None:
    with cluster(tmp_path, coordinator(**annotations)) as kubeconfig:
        arguments = [*([option] if option else []), "--is-upgrade", "--dry-run=server", kubeconfig]
        done = template(*arguments)
    assert (done.returncode != 0) == rejected, done.stderr
    if rejected:
        assert "--set auth.enabled=false --set tls.generate=false" in done.stderr


def test_a_new_release_has_authentication(tmp_path: Path) -> None:
    with cluster(tmp_path, coordinator()) as kubeconfig:
        assert template("--dry-run=server", kubeconfig).returncode == 0
