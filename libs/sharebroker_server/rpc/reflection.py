"""gRPC's server reflection, by which tools read the services and messages of a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from grpc_reflection.v1alpha import reflection

SERVICE_NAME: str = reflection.SERVICE_NAME


def enable(names: Iterable[str], server: grpc.aio.Server) -> None:
    """Adds the reflection service to a server; it lists the named services."""
    reflection.enable_server_reflection((*names, SERVICE_NAME), server, pool=MethodDescriptorPool())


def request_descriptor(method: str) -> Descriptor | None:
    """Returns the descriptor of the requests of a method, given as /package.Service/Method."""
    service, _, name = method[1:].partition("/")
    try:
        return descriptor_pool.Default().FindServiceByName(service).methods_by_name[name].input_type
    except KeyError:
        return None


class MethodDescriptorPool:
    """Descriptor pool that also finds methods, as the reflection protocol specifies; ghz queries methods."""

    def __init__(self) -> None:
        self._pool = descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> Any:
        """Returns the file of a message, a service or `package.Service.Method`. Raises KeyError."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            return self._pool.FindServiceByName(service).methods_by_name[method].containing_service.file
