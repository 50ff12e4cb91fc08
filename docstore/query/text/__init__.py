"""Words in texts: the keys of documents in a text index, and the text search."""
