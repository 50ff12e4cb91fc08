"""CQL's roles as users and roles of the database admin: statements, their grammar, and their commands."""
