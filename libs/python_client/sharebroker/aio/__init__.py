"""The asyncio client: `ShareConsumer`, `Producer` and `Admin`."""

from sharebroker.aio.admin import Admin
from sharebroker.aio.consumer import ShareConsumer
from sharebroker.aio.producer import Producer

__all__ = ["Admin", "Producer", "ShareConsumer"]
