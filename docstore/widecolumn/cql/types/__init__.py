"""The types of CQL: their values as bytes, as text and as BSON."""
