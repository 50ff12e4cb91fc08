"""Writes at ANY that found no primary, kept until there is one."""
