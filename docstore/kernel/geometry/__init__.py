"""Points of documents, and cells and regions of the sphere and the plane (defined by `docstore.query.geo`)."""
