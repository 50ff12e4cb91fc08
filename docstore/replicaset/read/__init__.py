"""Which state a read gets by its read concern: majority snapshots, leases of cluster times."""
