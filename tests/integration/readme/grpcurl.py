"""The part of `grpcurl` that the README uses: one call with a JSON request, messages read by reflection."""

from __future__ import annotations

import argparse
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson, Parse
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


def main() -> None:
    """Makes the call and prints the response."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-plaintext", action="store_true", required=True)
    parser.add_argument("-d", dest="data", default="{}")
    parser.add_argument("address")
    parser.add_argument("method")
    options = parser.parse_args()
    service_name, _, method_name = options.method.partition("/")
    with grpc.insecure_channel(options.address) as channel:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        method = pool.FindServiceByName(service_name).methods_by_name[method_name]
        request = Parse(options.data, GetMessageClass(method.input_type)())
        call: grpc.UnaryUnaryMultiCallable[Message, Message] = channel.unary_unary(
            f"/{service_name}/{method_name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        sys.stdout.write(MessageToJson(call(request, timeout=60)) + "\n")


if __name__ == "__main__":
    main()
