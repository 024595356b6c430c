"""Helpers for asyncio: tasks, threads, backoff."""
