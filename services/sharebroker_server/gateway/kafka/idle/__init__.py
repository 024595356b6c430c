"""Response caches for the repeated requests of idle clients."""
