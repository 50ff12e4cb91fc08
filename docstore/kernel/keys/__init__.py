"""Order-preserving keys: written, encoded, taken from documents by a pattern, decoded, hashed."""
