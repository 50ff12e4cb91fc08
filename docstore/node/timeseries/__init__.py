"""Time-series collections as commands meet them: what is asked about measurements is carried out on buckets."""
