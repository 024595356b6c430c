"""A real Kubernetes of one node: started, and removed with everything in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.k8s import configs
from tests.k8s.keys import NODE_NAME, write_keys
from tests.k8s.kubectl import Kubectl
from tests.k8s.network import INSIDE, network, pod_networks, remove
from tests.k8s.parts import Missing
from tests.testkit.waiting import until

_START: Final = 120.0
_STOP: Final = 10.0
_CGROUPS: Final = Path("/sys/fs/cgroup")


class Node:
    """The processes of the control plane and of its one node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = contextlib.ExitStack()
        self.kubectl = Kubectl(folder / "keys" / "admin.kubeconfig")

    def start(self, images: Sequence[Path]) -> None:
        """Starts everything, with images of these archives, and waits until the node is ready.

        Raises Missing with the end of a log.
        """
        folder = self.folder
        for name in ("keys", "log"):
            (folder / name).mkdir()
        write_keys(folder / "keys")
        self._stack.enter_context(network())
        self._run("etcd", configs.etcd(folder))
        self._run("kube-apiserver", configs.api_server(folder))
        self._await("kube-apiserver", lambda: self.kubectl.answers("get", "--raw=/readyz"))
        self._run("kube-controller-manager", configs.controllers(folder))
        self._run("kube-scheduler", configs.scheduler(folder))
        others = pod_networks()
        self._stack.callback(lambda: remove(pod_networks() - others))
        self._stack.callback(self._unmount)
        self._run("containerd", configs.containerd(folder))
        self._await("containerd", lambda: self._ctr("version").returncode == 0)
        for archive in images:
            imported = self._ctr("-n", "k8s.io", "images", "import", str(archive))
            if imported.returncode:
                raise Missing(f"the images cannot be imported: {imported.stderr}")
        self._stack.callback(self._end_pods)
        self._run("kubelet", configs.kubelet(folder))
        self._run("coredns", configs.dns(folder))
        self._run("kube-proxy", configs.proxy(folder))
        self._await("kubelet", lambda: self.kubectl.answers("get", "node", NODE_NAME))
        self.kubectl("wait", "--for=condition=Ready", f"node/{NODE_NAME}", "--timeout=120s")

    def stop(self) -> None:
        """Ends the pods and all processes, unmounts, removes the network."""
        self._stack.close()

    def _run(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / "log" / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*INSIDE, *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._stack.callback(_end, process)

    def _await(self, name: str, responses: object) -> None:
        assert callable(responses)
        try:
            until(responses, _START)
        except AssertionError as failure:
            output = (self.folder / "log" / f"{name}.log").read_text()[-2000:]
            raise Missing(f"{name} does not start: {output}") from failure

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "-a", f"{self.folder}/containerd/c.sock", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def _end_pods(self) -> None:
        """Ends the pods; the kubelet has ended, so none restarts."""
        for name in self._ctr("-n", "k8s.io", "task", "list", "-q").stdout.split():
            self._ctr("-n", "k8s.io", "task", "kill", "-s", "KILL", name)
        for name in self._ctr("-n", "k8s.io", "task", "list", "-q").stdout.split():
            self._ctr("-n", "k8s.io", "task", "delete", "-f", name)
        for name in self._ctr("-n", "k8s.io", "container", "list", "-q").stdout.split():
            self._ctr("-n", "k8s.io", "container", "delete", name)

    def _unmount(self) -> None:
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for path in sorted((one for one in mounts if one.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", path], capture_output=True, check=False, timeout=20)
        for top in _CGROUPS.glob("**/kubepods"):
            for inner, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    Path(inner).rmdir()


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cluster(images: Sequence[Path]) -> Iterator[Node]:
    """Provides a ready node; whatever happens, nothing of it remains."""
    folder = Path(tempfile.mkdtemp(prefix="sharebroker-k8s-"))
    node = Node(folder)
    try:
        node.start(images)
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)
