"""Who may reach a process, by what the processes of a cluster know each other, and where the audit log goes."""
