"""Documents, indexes and the oplog over the key-value engines.

`store` is the entry point, `unit_of_work` the only way to write. `catalog`: collections, views and indexes. `index`:
specifications, keys, builds. `read`: plan execution. `oplog`: writing, application and undo of entries.
"""
