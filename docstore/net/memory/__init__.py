"""Memory of a process: the allocator's free memory, the schedule of garbage collection, buffers of connections."""
