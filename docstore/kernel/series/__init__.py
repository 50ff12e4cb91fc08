"""Buckets of measurements, which hold a column for each field (`docstore.timeseries`)."""
