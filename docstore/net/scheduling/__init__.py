"""Scheduling of a process's event loop: short requests as they come, long work in fair slices between them."""
