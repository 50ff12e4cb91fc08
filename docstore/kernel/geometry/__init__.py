"""Points of documents, and cells of the sphere (`docstore.query.geo` says what they are)."""
