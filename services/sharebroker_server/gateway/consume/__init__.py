"""Consume streams, and their unary counterparts Acquire and Acknowledge."""
