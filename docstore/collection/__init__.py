"""Documents, indexes and the oplog over the key-value engines.

`store` is the entrance; `unit` the only way to write; `collection` and `execute` how to read; `apply` how a member
follows another's oplog.
"""
