"""Requests that are relayed as bytes: to the one shard that they are for, and its answer to the client."""
