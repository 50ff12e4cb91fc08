"""What is written beside a change: oplog entries and undo records, put together from bytes."""
