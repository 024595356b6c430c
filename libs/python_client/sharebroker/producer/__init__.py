"""Code shared by the asyncio and the blocking producer."""
