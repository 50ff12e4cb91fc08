"""Transactions as a router carries them out: which shards take part, what it asks of them, how they are committed."""
