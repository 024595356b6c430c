"""Code shared by the asyncio and the blocking share consumer."""
