"""Who has the event loop of a process: short requests as they come, long work in fair slices between them."""
