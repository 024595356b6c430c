"""The asyncio client: `ShareConsumer`, `Producer` and `Admin`."""

from sharebroker.aio.consumer import ShareConsumer

__all__ = ["ShareConsumer"]
