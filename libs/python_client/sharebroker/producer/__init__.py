"""What the asyncio and the blocking producer have in common."""
