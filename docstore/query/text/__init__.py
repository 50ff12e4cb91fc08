"""Words in texts: what an index of words holds of a document, and what a search for words finds in it."""
