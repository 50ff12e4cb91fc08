"""Group execution of statements of one update or delete command."""
