"""Names of all keys in Redis.

All keys of one resource share the hash tag `{resource}`. In a cluster they have the same slot, so that a
script can compare the lease epoch and append to the log atomically.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names under one prefix; two installations may share a server under two prefixes."""

    prefix: str = "sharebroker"

    @staticmethod
    def of_cluster(cluster_id: str) -> Keys:
        """Returns the keys of the named cluster; the default cluster's name is ""."""
        return Keys(f"{Keys().prefix}.{cluster_id}" if cluster_id else Keys().prefix)

    def lease(self, resource: str) -> str:
        """Hash {owner, epoch, expires_ms}: the lease of the resource."""
        return f"{self.prefix}:{{{resource}}}:lease"

    def log(self, resource: str) -> str:
        """Stream: the resource's log."""
        return f"{self.prefix}:{{{resource}}}:log"

    def meta(self, resource: str) -> str:
        """Hash: metadata of the log."""
        return f"{self.prefix}:{{{resource}}}:meta"

    def all_of(self, kind: str) -> str:
        """Returns the pattern of all keys of the resources of a kind."""
        return f"{self.prefix}:{{{kind}:*}}:*"

    @staticmethod
    def resource_of(key: str) -> str:
        """Returns the resource that a key belongs to."""
        return key.partition("{")[2].partition("}")[0]

    def members(self) -> str:
        """Hash node id -> announcement: the members of the cluster."""
        return f"{self.prefix}:members"

    def cluster_secret(self) -> str:
        """String: the secrets by which the processes of the cluster recognise each other, one per line."""
        return f"{self.prefix}:cluster-secret"

    def format_version(self) -> str:
        """Hash {version, release}: the format version of all data under the prefix.

        The key has the slot of the catalog, so that a script distinguishes new data from old data.
        """
        return f"{self.prefix}:{{catalog}}:format"

    def generation(self, name: str) -> str:
        """Hash {digest, number}: the number of changes of the named digest."""
        return f"{self.prefix}:{name}:generation"
