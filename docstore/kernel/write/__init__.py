"""What write commands consist of: statements, and what many of them do to documents."""
