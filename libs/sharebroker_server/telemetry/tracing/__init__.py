"""Tracing within a server. `sharebroker_protocol.tracing` creates spans, for clients as well."""
