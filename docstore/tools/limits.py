"""Limits of files, texts and tables."""

MAX_ARCHIVED_DOCUMENT_BYTES = 48 << 20
"""More is no length, but something else that stands in its place."""
MAX_FILE_NAME_BYTES = 238
MAX_CUT_NAME_BYTES = 208
MAX_TEXT_CHARACTERS = 1 << 27
"""Canonical text of the largest document is shorter."""
MAX_TABLE_COLLECTIONS = 10
