"""Servers for tests of applications: `Server` runs one as a process.

The pytest plugin of the package has the fixtures `sharebroker_server`, `sharebroker_topic` and
`sharebroker_group`. `sharebroker.testing.container` has a container for testcontainers.
"""

from sharebroker.testing.server import Server, ServerStartError

__all__ = ["Server", "ServerStartError"]
