"""Descriptors for gRPC's server reflection."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool


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
