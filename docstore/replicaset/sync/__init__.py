"""Becoming and staying a copy: sync source, initial sync, application of entries, rollback."""
