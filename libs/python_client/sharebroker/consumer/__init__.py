"""What the asyncio and the blocking share consumer have in common."""
