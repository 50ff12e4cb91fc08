"""The commands that a router serves, one module each: sent to shards, to the config servers, or answered here."""
