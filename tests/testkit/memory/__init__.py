"""The stores in memory: leases, stream logs and record logs, with faults on demand."""
