"""Limits of data directories and their files."""

MAX_SLOT_LOGS = 80
"""Logs per slot, at 40 bytes each."""
MAX_WAITING_FILES = 12
"""Files waiting for compaction from which no memtable is flushed for its tombstones."""
