"""The response to a request that failed as a whole, derived from the schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.kafka_wire.message_classes import Message, message_class
from sharebroker_server.kafka_wire.schema import Field, Struct

A = TypeVar("A", bound=Message)

_CODES: Final = frozenset({"error_code", "partition_error_code"})

Echo = Mapping[str, str | Callable[[Any], Any]]
"""Paths of response fields, and the request fields (or functions of them) that their values come from."""


def refusal(
    response: type[A], echo: Echo = MappingProxyType({}), **constants: Any
) -> Callable[[Call[Any], KafkaError], A]:
    """Returns the function that makes the refusal of an API.

    Every error field of the response gets the error. `constants` are values of fields by name, at any depth.

    Some APIs have an error per item and none for the whole request. `echo` names the arrays that are built
    from arrays of the request, so that each item gets the error: {"responses": "resources"}. Nested arrays
    are named by their path: {"topics": "topics", "topics.partitions": "partitions"}. Scalar fields of an
    item are copied from the request's item by name; `echo` names the exceptions.
    """

    def refuse(call: Call[Any], error: KafkaError) -> A:
        made = _Refusal(call.version, error, echo, constants).fill(response.struct, call.request, "")
        assert isinstance(made, response)
        return made

    return refuse


class _Refusal:
    def __init__(self, version: int, error: KafkaError, echo: Echo, constants: Mapping[str, Any]) -> None:
        self._version = version
        self._error = error
        self._echo = echo
        self._constants = constants

    def fill(self, struct: Struct, source: Any, path: str) -> Message:
        """Returns the struct at `path`; `source` is the part of the request that it refers to."""
        values: dict[str, Any] = {}
        for field in struct.of(self._version):
            if field.name in self._constants:
                values[field.name] = self._constants[field.name]
            elif field.name in _CODES:
                values[field.name] = self._error.code
            elif field.name == "error_message":
                values[field.name] = self._error.message
            else:
                self._copy(field, source, path, values)
        return message_class(struct)(**values)

    def _copy(self, field: Field, source: Any, path: str, values: dict[str, Any]) -> None:
        at = f"{path}{field.name}"
        origin = self._echo.get(at)
        if origin is None:
            if not path or field.struct is not None or not hasattr(source, field.name):
                return
            origin = field.name
        value = origin(source) if callable(origin) else getattr(source, origin)
        if field.struct is not None:
            value = [self.fill(field.struct, item, f"{at}.") for item in value or ()]
        values[field.name] = value
