"""The listener, the client, its pool and topology, and the life of a process, on sockets of this machine."""
