"""Options of gRPC servers: limits on messages, headers, connections and handshakes."""

from __future__ import annotations

from typing import Final

from sharebroker_server.open_files import connections_permitted
from sharebroker_server.rpc.message_limits import MAX_READ, MAX_RESPONSE

_IDENTITY_ONLY = 1
"""The set of compression algorithms whose only element is `identity`: no compression."""

MAX_METADATA: Final = 18 * 1024
"""Bytes of the headers of a call, 32 for each and its name included (RFC 9113, section 6.5.2).

An access token has up to 16 KiB."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_READ),
    ("grpc.max_send_message_length", MAX_RESPONSE),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.server_handshake_timeout_ms", 10_000),  # TLS and HTTP/2 settings; as the Kafka listener's
    ("grpc.max_concurrent_streams", 10_000),
    # Without these gRPC rejects calls at random from 8 KiB on.
    ("grpc.max_metadata_size", MAX_METADATA),
    ("grpc.absolute_max_metadata_size", MAX_METADATA + 2048),
    # Otherwise gRPC keeps a rejected call and its headers for up to a second.
    ("grpc.http.tarpit", 0),
    # Otherwise gRPC buffers megabytes of each stream that is not read. A message in reading has more.
    ("grpc.http2.bdp_probe", 0),
    # gRPC checks the size of a message before it decompresses it, so a small message could use gigabytes.
    ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
)


def server_options(*, shares: bool) -> list[tuple[str, int]]:
    """Returns the options of a server; with `shares` other processes may listen at its address."""
    return [
        *_OPTIONS,
        ("grpc.so_reuseport", int(shares)),
        # Half of the open files, so that clients of gRPC leave some for Kafka's clients and for Redis.
        ("grpc.max_allowed_incoming_connections", connections_permitted() // 2),
    ]
