"""The taking side of a migration: the driver of the pure recipient."""
