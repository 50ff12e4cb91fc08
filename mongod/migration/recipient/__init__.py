"""The taking side of a migration, carried out: `driver` runs the core `docstore.sharding.recipient`, `preparation` and
`batches` are what it does to the store."""
