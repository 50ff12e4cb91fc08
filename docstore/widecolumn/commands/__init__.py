"""Helpers that the commands of the wide-column mode share on nodes and routers."""
