"""The system keyspaces: tables that show the schema and the routers, read like any other."""
