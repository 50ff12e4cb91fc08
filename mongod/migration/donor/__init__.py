"""The giving side of a migration, carried out: `driver` runs the core `docstore.sharding.donor`; `cloning` sends the
range from a `clone_source`, `persistence` writes the durable documents, `config_commit` asks for the decision."""
