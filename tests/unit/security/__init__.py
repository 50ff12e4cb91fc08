"""SCRAM, privileges, built-in roles and restrictions as values, without a server."""
