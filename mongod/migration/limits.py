"""Limits of the messages that a migration sends."""

BATCH_BYTES = 4 * 1024 * 1024
BATCH_DOCUMENTS = 5_000
CHANGES_AT_ONCE = 1_000
"""Changes of documents, or statements of sessions, in a message."""
COLLECTIONS_AT_ONCE = 64
MAX_PREDICATE_RANGES = 4096
"""A predicate of more ranges takes longer to make than looking into the chunk map, document by document."""
