"""Members of a set in one process over engines in memory: election, copying, snapshots, write concerns."""
