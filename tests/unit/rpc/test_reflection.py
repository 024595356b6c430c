"""Descriptors for gRPC's server reflection."""

from __future__ import annotations

import pytest

from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.rpc.reflection import MethodDescriptorPool, request_descriptor

PACKAGE = "sharebroker.share_coordinator.v1"


@pytest.mark.parametrize(
    "symbol",
    [
        "FetchShareGroupStateRequest",
        "ShareCoordinatorService",
        "ShareCoordinatorService.FetchShareGroupState",
    ],
)
def test_messages_services_and_methods_are_found(symbol: str) -> None:
    assert MethodDescriptorPool().FindFileContainingSymbol(f"{PACKAGE}.{symbol}").name == pb.DESCRIPTOR.name


@pytest.mark.parametrize(
    "symbol", ["absent", f"{PACKAGE}.Absent.Call", f"{PACKAGE}.ShareCoordinatorService.Absent"]
)
def test_an_unknown_symbol_is_a_key_error(symbol: str) -> None:
    with pytest.raises(KeyError):
        MethodDescriptorPool().FindFileContainingSymbol(symbol)


def test_other_lookups_use_the_default_pool() -> None:
    found = MethodDescriptorPool().FindMessageTypeByName(f"{PACKAGE}.FetchShareGroupStateRequest")
    assert found is pb.FetchShareGroupStateRequest.DESCRIPTOR


def test_the_requests_of_a_method_have_a_descriptor() -> None:
    method = f"/{PACKAGE}.ShareCoordinatorService/FetchShareGroupState"
    assert request_descriptor(method) is pb.FetchShareGroupStateRequest.DESCRIPTOR


@pytest.mark.parametrize(
    "method", ["", "/", "/absent.Service/Call", f"/{PACKAGE}.ShareCoordinatorService/Absent"]
)
def test_an_unknown_method_has_no_descriptor(method: str) -> None:
    assert request_descriptor(method) is None
