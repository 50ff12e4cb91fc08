"""Authentication and authorization as values: SCRAM, users, roles, privileges. No storage, no sockets, no clock."""
