"""Documents, indexes and the oplog over the key-value engines.

`store` is the entrance, `unit_of_work` the only way to write. `catalog`: which collections, views and indexes there
are; `index`: specifications, keys, builds; `read`: running plans; `oplog`: entries written, applied and undone.
"""
