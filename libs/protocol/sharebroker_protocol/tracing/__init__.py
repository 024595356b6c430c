"""Tracing with OpenTelemetry: sampling, trace context in record headers, a limit on spans.

OpenTelemetry is imported only by `setup`, unless the application imported it itself.
"""
