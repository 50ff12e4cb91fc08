"""`$jsonSchema`, and the details of a document's failure to match a validator."""
