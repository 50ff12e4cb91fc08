"""Time-series collections: commands about measurements, executed on buckets."""
