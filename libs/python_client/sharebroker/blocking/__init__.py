"""The blocking client: the asyncio one on a thread of its own. Batches cross threads, records do not."""
