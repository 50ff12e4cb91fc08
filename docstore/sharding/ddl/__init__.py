"""DDL in a cluster as pure decisions: what an operation is on disk, what it does next, what remains of what is gone.

`docstore.sharding.ddl.coordinator` drives one operation through its phases; the plans of the operations are in `plans`.
"""
