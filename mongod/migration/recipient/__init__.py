"""The recipient's side of a migration, carried out: `driver` runs the core `docstore.sharding.recipient`;
`preparation` and `batches` change the store.
"""
