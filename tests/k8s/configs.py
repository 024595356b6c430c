"""The configuration of each part of the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import yaml

from tests.k8s.images import PAUSE
from tests.k8s.keys import NODE_NAME
from tests.k8s.machine import CNI
from tests.k8s.network import NODE
from tests.k8s.parts import BIN

SERVICES: Final = "10.96.0.0/24"
_PODS: Final = "10.244.0.0/24"
_ETCD: Final = "http://127.0.0.1:2379"
_PEERS: Final = "http://127.0.0.1:2380"


def etcd(folder: Path) -> list[str]:
    """Writes the configuration of etcd: one member, whose data need not survive."""
    return [
        "etcd",
        "--name=here",
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_PEERS}",
        f"--initial-advertise-peer-urls={_PEERS}",
        f"--initial-cluster=here={_PEERS}",
        "--unsafe-no-fsync",
    ]


def api_server(folder: Path) -> list[str]:
    """Writes the configuration of the API server, with RBAC and the aggregation layer that KEDA's metrics
    need.
    """
    keys = folder / "keys"
    return [
        f"{BIN}/kube-apiserver",
        f"--etcd-servers={_ETCD}",
        f"--advertise-address={NODE}",
        "--bind-address=0.0.0.0",
        "--secure-port=6443",
        f"--service-cluster-ip-range={SERVICES}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--client-ca-file={keys}/ca.crt",
        f"--tls-cert-file={keys}/apiserver.crt",
        f"--tls-private-key-file={keys}/apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys}/accounts.key",
        f"--service-account-signing-key-file={keys}/accounts.key",
        f"--kubelet-client-certificate={keys}/admin.crt",
        f"--kubelet-client-key={keys}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={keys}/ca.crt",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={keys}/front.crt",
        f"--proxy-client-key-file={keys}/front.key",
    ]


def controllers(folder: Path) -> list[str]:
    """Writes the configuration of the controller manager."""
    return [
        f"{BIN}/kube-controller-manager",
        f"--kubeconfig={folder}/keys/controllers.kubeconfig",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={folder}/keys/accounts.key",
        f"--root-ca-file={folder}/keys/ca.crt",
        f"--service-cluster-ip-range={SERVICES}",
    ]


def scheduler(folder: Path) -> list[str]:
    """Writes the configuration of the scheduler."""
    kubeconfig = folder / "keys" / "scheduler.kubeconfig"
    return [
        f"{BIN}/kube-scheduler",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
    ]


def containerd(folder: Path) -> list[str]:
    """Writes the configuration of the runtime, with its own state, and of the pods' bridge."""
    own = folder / "containerd"
    (folder / "containerd.toml").write_text(
        f"""version = 2
root = "{own}/root"
state = "{own}/state"
[grpc]
  address = "{own}/c.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{own}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # For machines where even root may not lower a process's score (no CAP_SYS_RESOURCE).
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI}"
    conf_dir = "{folder}/cni"
"""
    )
    addresses: dict[str, object] = {"type": "host-local", "dataDir": f"{folder}/cni/addresses"}
    addresses |= {"ranges": [[{"subnet": _PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}
    (folder / "cni").mkdir()
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(network))
    return ["containerd", "--config", f"{folder}/containerd.toml"]


def kubelet(folder: Path) -> list[str]:
    """Writes the configuration of the kubelet, which ignores a nearly full disk of the machine."""
    (folder / "resolv.conf").write_text(f"nameserver {NODE}\n")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{folder}/keys/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{folder}/keys/node.crt",
        "tlsPrivateKeyFile": f"{folder}/keys/node.key",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "address": NODE,
        "healthzBindAddress": "127.0.0.1",
        "clusterDNS": [NODE],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{folder}/containerd/c.sock",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "syncFrequency": "5s",
        "nodeStatusUpdateFrequency": "4s",
    }
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(config))
    return [
        f"{BIN}/kubelet",
        f"--config={folder}/kubelet.yaml",
        f"--kubeconfig={folder}/keys/node.kubeconfig",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE}",
        f"--root-dir={folder}/kubelet",
    ]


def dns(folder: Path) -> list[str]:
    """Writes the configuration of cluster DNS, a process on the node."""
    (folder / "Corefile").write_text(
        f""".:53 {{
  bind {NODE}
  errors
  ready 127.0.0.1:8181
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {folder}/keys/admin.kubeconfig here
    pods insecure
  }}
}}
"""
    )
    return [f"{BIN}/coredns", "-conf", f"{folder}/Corefile"]


def proxy(folder: Path) -> list[str]:
    """Writes the configuration of services by iptables."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": f"{folder}/keys/proxy.kubeconfig"},
        "hostnameOverride": NODE_NAME,
        "bindAddress": NODE,
        "clusterCIDR": "10.244.0.0/16",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0},
    }
    (folder / "proxy.yaml").write_text(yaml.safe_dump(config))
    return [f"{BIN}/kube-proxy", f"--config={folder}/proxy.yaml"]
