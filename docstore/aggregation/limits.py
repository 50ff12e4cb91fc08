"""Limits of pipelines and expressions."""

MAX_FACET_BYTES = 100 * 1024 * 1024
MAX_LOOKUP_ARRAY_BYTES = 16 * 1024 * 1024
MAX_KEY_SET_ENTRIES = 4096
"""A larger set of keys is partitioned: resizing it would take long."""
MAX_KERNEL_GROUP_FIELDS = 1000
"""The kernel's states of a group form a chain, which is freed recursively."""
MAX_CROWDED_PIECES = 2
"""Spilled pieces cached while the process is short of memory."""
MAX_EVENT_FRAGMENTS = 100
MAX_CACHED_PROJECTION_BYTES = 1024
"""Longer projections are unlikely to be repeated."""
MAX_REPLACED_BYTES = 64 * 1024 * 1024
MAX_ZONE_BUCKETS = 50_000
MAX_BIN_UNITS = 100_000_000_000
MAX_KERNEL_BIN_UNITS = 100_000
"""Units per bin that the kernel supports."""
