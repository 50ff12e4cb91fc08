"""States for reads by their read concern: majority snapshots, and leases of snapshots at cluster times."""
