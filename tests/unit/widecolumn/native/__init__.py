"""The native protocol on a node in this process: what clients send, and what they are answered."""
