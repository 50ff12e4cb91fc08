"""Records that are written with each change: oplog entries and undo records, built from bytes."""
