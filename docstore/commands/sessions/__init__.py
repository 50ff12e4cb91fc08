"""Logical sessions: request fields, the registry of sessions in use, lists and reports."""
