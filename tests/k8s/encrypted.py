"""A release with TLS on every port, for clients with certificates alone."""

from __future__ import annotations

from sharebroker import Admin
from tests.k8s.keys import NAMESPACE
from tests.k8s.release import NAME, Release
from tests.testkit.certificates import Authority

_SECRET = "sharebroker-tls"
_VALUES = (
    f"--set=tls.secret={_SECRET}",
    "--set=tls.clientAuth=required",
    "--set=auth.enabled=false",
    "--set=redis.builtIn.persistence.enabled=false",
)


def encrypted(release: Release) -> str:
    """Installs it, tests it from inside and outside, uninstalls it. Raises Failed or AssertionError."""
    kubectl = release.node.kubectl
    authority = Authority.make(release.node.folder / "tls")
    served = f"{NAME}.{NAMESPACE}.svc"
    broker = authority.issue("broker", NAME, served)
    files = {"tls.crt": broker.certificate, "tls.key": broker.key, "ca.crt": authority.file}
    kubectl(
        "create", "secret", "generic", _SECRET, *(f"--from-file={key}={file}" for key, file in files.items())
    )
    release.install(*_VALUES)
    release.test()
    me = authority.issue("me", "me.example")
    query = f"ca={authority.file}&cert={me.certificate}&key={me.key}&name={served}"
    with Admin(f"tls://{release.address()}?{query}") as admin:
        assert admin.list_topics() == []
    release.uninstall()
    kubectl("delete", "secret", _SECRET)
    return "installed, tested from within and from outside, uninstalled"
