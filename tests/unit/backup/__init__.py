"""Text, archives and namespaces of the command-line tools, without a server."""
