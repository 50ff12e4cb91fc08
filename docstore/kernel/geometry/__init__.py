"""Points of documents, and cells and regions of the sphere and the plane (`docstore.query.geo` says what they are)."""
