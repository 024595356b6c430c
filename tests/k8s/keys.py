"""The identities of the cluster: an authority, a certificate and a kubeconfig each."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import trustme
import yaml

from tests.k8s.network import NODE

SERVER: Final = f"https://{NODE}:6443"
NODE_NAME: Final = "node1"
NAMESPACE: Final = "queues"
"""The namespace of commands and objects that name no other."""

_HOSTS: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "localhost",
    "127.0.0.1",
    NODE,
    "10.96.0.1",
)
_USERS: Final = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", None),
    "scheduler": ("system:kube-scheduler", None),
    "node": (f"system:node:{NODE_NAME}", "system:nodes"),
    "proxy": ("system:kube-proxy", None),
    "front": ("front-proxy", None),
}


def write_keys(folder: Path) -> None:
    """Writes certificates as NAME.crt and NAME.key, kubeconfigs as NAME.kubeconfig."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    _write(folder, "apiserver", authority.issue_cert(*_HOSTS, common_name="kube-apiserver"))
    for name, (user, group) in _USERS.items():
        hosts = (NODE_NAME, NODE) if name == "node" else (name,)
        _write(folder, name, authority.issue_cert(*hosts, common_name=user, organization_name=group))
        (folder / f"{name}.kubeconfig").write_text(_kubeconfig(folder, name))
    _write(folder, "accounts", authority.issue_cert("accounts"))


def _write(folder: Path, name: str, certificate: trustme.LeafCert) -> None:
    certificate.cert_chain_pems[0].write_to_path(str(folder / f"{name}.crt"))
    key = folder / f"{name}.key"
    key.touch(0o600)
    certificate.private_key_pem.write_to_path(str(key))


def _kubeconfig(folder: Path, name: str) -> str:
    user = {"client-certificate": f"{folder}/{name}.crt", "client-key": f"{folder}/{name}.key"}
    context = {"cluster": "here", "user": "me", "namespace": NAMESPACE}
    cluster = {"server": SERVER, "certificate-authority": f"{folder}/ca.crt"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "here", "context": context}],
            "current-context": "here",
        }
    )
