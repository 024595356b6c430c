"""Traces within a server: what record batches say of traces, what calls pass on. How they are made is the
client's (`sharebroker_protocol.tracing`), since the command line and producers make them too.
"""
