"""Names of all keys in Redis.

Everything of one resource shares the hash tag `{resource}`: in a cluster its keys lie in one slot, so that a
script can compare the lease and append to the log in one step.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names under one prefix; two installations may share a server under two prefixes."""

    prefix: str = "sharebroker"

    @staticmethod
    def of_cluster(cluster_id: str) -> Keys:
        """Those of the cluster of this name; "" is a name, too."""
        return Keys(f"{Keys().prefix}.{cluster_id}" if cluster_id else Keys().prefix)

    def lease(self, resource: str) -> str:
        """Hash {owner, epoch, expires_ms}: who owns the resource."""
        return f"{self.prefix}:{{{resource}}}:lease"

    def log(self, resource: str) -> str:
        """Stream: the resource's log."""
        return f"{self.prefix}:{{{resource}}}:log"

    def meta(self, resource: str) -> str:
        """Hash: small facts kept beside the log."""
        return f"{self.prefix}:{{{resource}}}:meta"

    def all_of(self, kind: str) -> str:
        """A pattern for every key of the resources of a kind."""
        return f"{self.prefix}:{{{kind}:*}}:*"

    @staticmethod
    def resource_of(key: str) -> str:
        """The resource a key belongs to."""
        return key.partition("{")[2].partition("}")[0]

    def members(self) -> str:
        """Hash node id -> announcement: the processes of the cluster."""
        return f"{self.prefix}:members"

    def generation(self, name: str) -> str:
        """Hash {digest, number}: how often what is named has changed."""
        return f"{self.prefix}:{name}:generation"
