"""Transactions on a router: the participating shards, the requests to them, and the commit."""
