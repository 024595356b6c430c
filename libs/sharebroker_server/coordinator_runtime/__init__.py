"""One shard of a coordinator: decide, append with the epoch, answer. No rule of any domain."""
