"""Catalog changes by commands: create, modify, copy into capped collections, commit quorums."""
