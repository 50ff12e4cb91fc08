"""Replication of data to this member: sync source, initial sync, application of oplog entries, rollback."""
