"""Traces (OpenTelemetry): what is sampled, what a record's headers say of it, spans within a bound.

Nothing of OpenTelemetry is imported before `setup` is asked to, or the application did so itself.
"""
