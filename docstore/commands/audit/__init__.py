"""The audit log: who did what to users, roles, the catalog and the configuration, and what was refused to whom."""
