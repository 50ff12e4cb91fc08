"""The loops over stored documents and index entries: iterator in, matches out; and sorting."""
