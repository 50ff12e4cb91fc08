"""Limits of the engines."""

MAX_TOUCHED_KEYS = 4_096
"""Written keys that are recorded for open snapshots, before iterators are pinned."""
MAX_INSERTED_KEYS = 64
"""Keys that are inserted singly into a sorted list; more are sorted with it."""
