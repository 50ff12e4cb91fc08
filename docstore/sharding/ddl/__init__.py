"""DDL in a cluster as pure decisions: the documents of an operation, its steps, the record of dropped incarnations.

`docstore.sharding.ddl.coordinator` drives one operation through its phases; the plans of the operations are in
`plans`.
"""
