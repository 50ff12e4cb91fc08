"""The audit log: changes of users, roles, the catalog and the configuration, and refused requests."""
