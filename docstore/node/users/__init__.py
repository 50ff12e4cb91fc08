"""Users and roles as a data node keeps them: documents of `admin.system.users` and `admin.system.roles`."""
