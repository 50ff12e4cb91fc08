"""The giving side of a migration: the driver of the pure donor, its steps, what it clones and captures."""
