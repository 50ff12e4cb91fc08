"""Limits of reading, planning and keeping documents."""

MAX_CACHED_VIEW_BYTES = 1024
"""Longer view documents are not cached in parsed form."""
MAX_GEO_HASH_BITS = 32
MAX_TEXT_WEIGHT = 100_000
"""Exclusive."""
MAX_UNDO_GROUP_BYTES = 1 << 20
MAX_NEAR_SCAN_DOCUMENTS = 200
"""Larger collections are searched ring by ring."""
MAX_TRIAL_PLANS = 6
MAX_TRIAL_STEPS = 1_000
"""Entries that each plan on trial examines."""
MAX_RECENT_ENTRIES = 200
"""Of both generations together."""
MAX_TOP_DOCUMENTS = 4_096
"""Limits up to which a sort keeps only its first documents."""
MAX_SMALL_DOCUMENTS = 1_000
"""Documents of a small collection."""
MAX_SMALL_BYTES = 1 << 20
MAX_REPORTED_ERRORS = 100
MAX_STEP_ENTRIES = 1_000
"""Entries that a step examines."""
MAX_SINGLE_RANGE_ENTRIES = 16
"""Up to this number, a multi-range iterator reads the entries of one range faster."""
MAX_CACHED_SORT_BYTES = 1024
"""A longer sort or hint is unlikely to be repeated."""
MAX_CACHED_FIELD_SETS = 256
"""Sets of changed fields for which a collection caches the affected indexes."""
