"""The choice of an access path: bounds from filters, candidates from indexes."""
