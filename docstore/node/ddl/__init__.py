"""Changes of the catalog that commands ask for: create, modify, copies into capped collections, commit quorums."""
