"""Words of texts, and the keys of documents in text indexes."""
