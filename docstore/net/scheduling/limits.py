"""Limits of connections, scheduling and memory."""

MAX_KEY_FILE_BYTES = 1 << 20
MAX_COLLECTION_SECONDS = 600.0
"""The interval after which a collection is due regardless of memory in use."""
MAX_NEW_BLOCKS = 200_000
"""Memory blocks in use beyond those after the last collection, above which it is postponed."""
MAX_PATIENCE_CHECKS = 128
"""Checks between two attempts that freed nothing; the number doubles each time."""
MAX_PATIENCE_CHECKS_AT_WORK = 16
"""The same if the freed memory was soon used again."""
MAX_IDLE_ACCOUNTS = 64
"""Idle accounts kept before those without effect are removed."""
MAX_DEFERRAL_SLICES = 9.0
"""Long work is deferred by at most this multiple of its last slice's duration."""
