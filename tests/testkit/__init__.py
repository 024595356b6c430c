"""Shared test tools: real servers, network faults, simulation, waiting for a condition."""
