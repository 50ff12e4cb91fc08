"""`$jsonSchema`, and the details of why a document fails a validator."""
