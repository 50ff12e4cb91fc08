"""Limits of a router's caches, batches and pauses."""

MAX_EVENT_BATCH_BYTES = 16 * 1024 * 1024
MAX_JOINED_BYTES = 1 << 18
"""Answers of all shards that are merged in one step, and documents that are sorted in one."""
MAX_CACHED_SORT_BYTES = 1024
"""Longer sort specifications rarely repeat."""
MAX_RELAYED_BATCH_BYTES = 1024 * 1024
MAX_CROWDED_BATCH_BYTES = 256 * 1024
"""A batch while the process holds too much in memory; then nothing is read ahead either."""
MAX_TEMPLATE_BYTES = 4096
"""Stages that a template is made of."""
MAX_TARGET_FORMS = 256
MAX_TARGET_NAMESPACES = 1024
MAX_READ_NAMESPACES = 1024
MAX_PAUSE_SECONDS = 0.1
"""Between two attempts to begin a shard's part of a transaction."""
MAX_CACHED_USERS = 4096
"""Unknown users too: anybody may ask for any name."""
