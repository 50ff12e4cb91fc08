"""The loops over stored documents and index entries, from an iterator to the matches; and sorting."""
