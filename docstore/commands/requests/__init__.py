"""Request parsing shared by nodes and routers: from a command's arguments to executable operations."""
