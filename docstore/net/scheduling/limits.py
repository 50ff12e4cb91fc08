"""Limits of scheduling."""

MAX_IDLE_ACCOUNTS = 64
"""Idle accounts kept before those without effect are removed."""
MAX_DEFERRAL_SLICES = 9.0
"""Long work is deferred by at most this multiple of its last slice's duration."""
