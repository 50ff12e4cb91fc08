"""Plans: statements resolved against the schema into partitions, rows, writes and outputs."""
