"""Memory of a process: the allocator's free memory, and the schedule of garbage collection."""
