"""Words in texts: what a text index holds of a document, and what a text search finds in it."""
