"""Limits of a shard's drivers and commands."""

MAX_RETRY_SECONDS = 1.0
"""Between two attempts of a coordinator."""
MAX_RECORD_HEAD_BYTES = 17
"""A record without its value: flags, timestamp, and the time of expiry."""
