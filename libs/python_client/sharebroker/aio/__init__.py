"""The asyncio client: `ShareConsumer`, `Producer`, `Admin` and `DeadLetters`."""

from sharebroker.aio.admin import Admin
from sharebroker.aio.consumer import ShareConsumer
from sharebroker.aio.dead_letters import DeadLetters
from sharebroker.aio.producer import Producer

__all__ = ["Admin", "DeadLetters", "Producer", "ShareConsumer"]
