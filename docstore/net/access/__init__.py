"""Exposure of a process to the network, authentication between cluster processes, and audit log destinations."""
