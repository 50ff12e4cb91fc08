"""The router: finds the shards that a request concerns, asks them, and makes one reply of theirs. It keeps no data."""
