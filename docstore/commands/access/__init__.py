"""Authentication of connections, and authorization of their commands."""
