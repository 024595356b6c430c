"""The users and ACLs of the metadata cache, as authentication and authorization read them."""

from __future__ import annotations

from collections.abc import Mapping

from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.security.acl_rules import AclRules
from sharebroker_server.security.authentication.scram import ScramCredential, ScramMechanism


class AccessView:
    """Always the current users and ACLs: a reload replaces the catalog of the cache."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    @property
    def acls(self) -> AclRules:
        """The ACLs."""
        return self._cache.catalog.acls

    def is_super_user(self, name: str) -> bool:
        """Returns whether the catalog makes a user a super user."""
        return self._cache.catalog.users.is_super_user(name)

    def credentials(self, name: str) -> Mapping[ScramMechanism, ScramCredential]:
        """Returns the credentials of a user; empty for a user that does not exist."""
        return self._cache.catalog.users.credentials(name)

    def any_credential(self, mechanism: ScramMechanism) -> ScramCredential | None:
        """Returns the credential of the oldest user that has one for the mechanism."""
        return self._cache.catalog.users.any_credential(mechanism)
