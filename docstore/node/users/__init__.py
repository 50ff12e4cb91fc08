"""Users and roles of a data node: documents of `admin.system.users` and `admin.system.roles`."""
