"""The oplog: entries written beside the changes that they tell of, applied on other members, undone by rollback."""
