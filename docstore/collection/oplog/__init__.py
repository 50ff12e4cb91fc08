"""The oplog: entries written with their changes, applied on other members, and undone by rollback."""
